# shellcheck shell=sh
# To be read in by those that fetch packages of other suites and architectures, or sources.

# own_lists DIRECTORY SUITE ARCHITECTURE TYPE (deb, deb-src): sets $apt, options for apt-get and
# apt-cache with package lists of their own in DIRECTORY, which are fetched: the machine's stay as
# they are, and nothing is installed. From the mirror that the machine has.
own_lists() {
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
	# shellcheck disable=SC2016 # apt-get's
	mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' |
		awk '$1 == "Debian" {print $2; exit}')
	cat >"$1/list.sources" <<-END
		Types: $4
		URIs: $mirror
		Suites: $2
		Components: main
		Architectures: $3
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
	apt="-q -o Dir::Etc::sourcelist=$1/list.sources -o Dir::Etc::sourceparts=/nonexistent
		-o Dir::State::lists=$1/lists -o Dir::Cache=$1/cache -o APT::Sandbox::User=root
		-o APT::Architecture=$3 -o APT::Architectures=$3
		-o Acquire::Languages=none -o Acquire::Retries=3"
	# shellcheck disable=SC2086 # a list of words
	apt-get $apt update
}
