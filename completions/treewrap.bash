# shellcheck shell=bash
# Completion for treewrap and treewrapctl in bash. Promises: options, their words, then the
# command's own completion; reads nothing but the lists of signals, users, runs and processes.
# Works without the package bash-completion, which only adds the command's own.

# The words up to the cursor as the program gets them: readline has taken "a=b:c" apart. Sets
# words, and at, which says where in COMP_WORDS each begins.
_treewrap_words() {
	local i rest=$COMP_LINE token
	words=() at=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		token=${COMP_WORDS[i]}
		if [[ $i -eq 0 || -z $rest || $rest == [[:space:]]* || -z $token ]]; then
			words+=("$token")
			at+=("$i")
		else
			words[-1]+=$token
		fi
		rest=${rest#*"$token"}
	done
}

# Offers those of the words $1 that begin with $2, behind what $3 says is there already; and
# without what readline holds for words before.
_treewrap_offer() {
	local before=$3 word broken
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
	broken=${COMP_WORDS[COMP_CWORD]}
	[[ $broken == [=:] ]] && broken=
	word=$before$2
	[[ $word == *"$broken" ]] || return
	before=${before:${#word}-${#broken} > 0 ? ${#word}-${#broken} : 0}
	COMPREPLY=("${COMPREPLY[@]/#/$before}")
}

# As the word begins, with SIG or without.
_treewrap_signals() {
	local all
	all=$(compgen -A signal | grep '^SIG')
	[[ $1 == SIG* ]] || all=${all//SIG/}
	printf '%s\n' "$all"
}

# The value of option $1, of which $2 is there, behind $3 in the same word.
_treewrap_value() {
	local part=$2 before=$3
	case $1 in
	--contain) _treewrap_offer "tree cgroup pidns auto" "$part" "$before" ;;
	--leftovers) _treewrap_offer "stop wait leave fail" "$part" "$before" ;;
	--stop-scope) _treewrap_offer "tree main" "$part" "$before" ;;
	--forward-to | --to) _treewrap_offer "main group tree" "$part" "$before" ;;
	--process-group) _treewrap_offer "new keep" "$part" "$before" ;;
	--as) _treewrap_offer "timeout dumb-init docker-init catatonit tini" "$part" "$before" ;;
	--id) _treewrap_offer auto "$part" "$before" ;;
	--caps) _treewrap_offer none "$part" "$before" ;;
	--signal | -p) _treewrap_offer "$(_treewrap_signals "$part")" "$part" "$before" ;;
	--stop-on | --rewrite)
		if [[ $part == *[,:]* ]]; then
			before+=${part%"${part##*[,:]}"}
			part=${part##*[,:]}
		fi
		_treewrap_offer "$(_treewrap_signals "$part")" "$part" "$before"
		;;
	--watch-pid) _treewrap_offer "$(cd /proc && echo [0-9]*)" "$part" "$before" ;;
	--user)
		if [[ $part == *:* ]]; then
			_treewrap_offer "$(compgen -g)" "${part#*:}" "$before${part%%:*}:"
		else
			_treewrap_offer "$(compgen -u)" "$part" "$before"
		fi
		;;
	esac
}

# Whether the word $1 is an option that takes the next word as its value.
_treewrap_takes_value() {
	case $1 in
	--timeout | --kill-after | --linger | --verify-for | --watch-fd | --status-fd | \
		--remap-exit | --contain | --leftovers | --stop-scope | --forward-to | \
		--process-group | --id | --as | --caps | --signal | --stop-on | --rewrite | \
		--watch-pid | --user) return 0 ;;
	--*) return 1 ;;
	esac
	[[ $1 =~ ^-[gvswlh]*[tkep]$ ]]
}

# The command's own completion; $1: where in COMP_WORDS it begins.
_treewrap_command() {
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "$1"
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
	else
		compopt -o bashdefault -o default
	fi
}

_treewrap() {
	local words at i last word
	_treewrap_words
	last=$((${#words[@]} - 1))
	# The rest is the command line of the program that it names.
	if [[ ${words[1]} == --as && $last -gt 2 ]]; then
		_treewrap_command "${at[2]}"
		return
	fi
	for ((i = 1; i <= last; i++)); do
		word=${words[i]}
		if [[ $word == -- && $i -lt $last ]]; then
			_treewrap_command "${at[i + 1]}"
			return
		elif [[ $word != -* ]]; then
			_treewrap_command "${at[i]}"
			return
		elif _treewrap_takes_value "$word" && ((i < last)); then
			if ((++i == last)); then
				[[ $word == --* ]] || word=-${word: -1}
				_treewrap_value "$word" "${words[i]}" ""
				return
			fi
		fi
	done
	if [[ $word == --*=* ]]; then
		_treewrap_value "${word%%=*}" "${word#*=}" "${word%%=*}="
		return
	fi
	_treewrap_offer "-t --timeout -k --kill-after --signal --stop-scope --verify-for
		--leftovers --linger --watch-stdin --watch-fd --watch-parent --watch-pid --stop-on
		--contain --forward-to -g --rewrite --process-group --id --user --caps
		--no-new-privs --confine-signals --preserve-status -e --remap-exit --status-fd
		--as -v --verbose -h --help --version -l --license -p -s -w --" "$word" ""
}

_treewrapctl() {
	local words at i word plain=()
	_treewrap_words
	word=${words[-1]}
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		if [[ ${words[i]} == --to ]]; then
			((++i))
		elif [[ ${words[i]} != -* ]]; then
			plain+=("${words[i]}")
		fi
	done
	if [[ ${words[-2]} == --to ]]; then
		_treewrap_value --to "$word" ""
	elif [[ $word == --*=* ]]; then
		_treewrap_value "${word%%=*}" "${word#*=}" "${word%%=*}="
	elif [[ $word == -* ]]; then
		_treewrap_offer "--to --json -h --help --version" "$word" ""
	elif ((${#plain[@]} == 0)); then
		_treewrap_offer "list status tree signal stop wait" "$word" ""
	elif ((${#plain[@]} == 1)) && [[ ${plain[0]} != list ]]; then
		_treewrap_offer "$("${words[0]}" list 2>/dev/null | sed '1d; s/ .*//')" "$word" ""
	elif ((${#plain[@]} == 2)) && [[ ${plain[0]} == signal ]]; then
		_treewrap_offer "$(_treewrap_signals "$word")" "$word" ""
	fi
}

complete -F _treewrap treewrap
complete -F _treewrapctl treewrapctl
