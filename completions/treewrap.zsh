#compdef treewrap treewrapctl
# Completion for treewrap and treewrapctl in zsh: options, their words, then the command's own.

_treewrap_signals() {
	local -a names=(${signals:#(EXIT|ZERR|DEBUG)})
	[[ $PREFIX == SIG* ]] && names=(SIG$^names)
	compadd "$@" -a names
}

_treewrap_rewrite() {
	if compset -P '*:'; then
		_treewrap_signals "$@"
	else
		_treewrap_signals -S : "$@"
	fi
}

_treewrap_user() {
	if compset -P '*:'; then
		_groups "$@"
	else
		_users "$@"
	fi
}

# _arguments leaves "--" before the command.
_treewrap_command() {
	if [[ $words[1] == -- ]]; then
		shift words
		((CURRENT--))
	fi
	_normal
}

_treewrap_run() {
	# The rest is the command line of the program that it names.
	if [[ $words[2] == --as ]] && ((CURRENT > 3)); then
		shift 2 words
		((CURRENT -= 2))
		_normal
		return
	fi
	_arguments -s -S \
		'(-t --timeout)'{-t+,--timeout=}'[stop it after this time]:duration: ' \
		'--watch-stdin[stop it when standard input hangs up]' \
		'--watch-fd=[... when this descriptor hangs up]:descriptor:_file_descriptors' \
		'--watch-parent[... when the process that started treewrap ends]' \
		'--watch-pid=[... when this process ends]:process:_pids' \
		'*--stop-on=[... when treewrap receives one of these]:signals:_sequence _treewrap_signals' \
		'--leftovers=[what to do with what outlives the command]:what:(stop wait leave fail)' \
		'--linger=[time for leftovers to end by themselves]:duration: ' \
		'*--signal=[polite signal]:signal:_treewrap_signals' \
		'(-k --kill-after)'{-k+,--kill-after=}'[time for a polite signal to work]:duration: ' \
		'--stop-scope=[who gets polite signals]:scope:(tree main)' \
		'--verify-for=[time to wait for the end after SIGKILL]:duration: ' \
		'--contain=[what holds the tree together]:containment:(tree cgroup pidns auto)' \
		'(-g --forward-to)--forward-to=[who gets forwarded signals]:target:(main group tree)' \
		'(-g --forward-to)-g[forward signals to the process group]' \
		'*--rewrite=[forward TO in place of FROM]:FROM\:TO:_treewrap_rewrite' \
		'--process-group=[process group of the command]:group:(new keep)' \
		'--id=[name of the run]:name:(auto)' \
		'--user=[run it as this user]:user:_treewrap_user' \
		'--caps=[exactly these capabilities]:capabilities:(none)' \
		'--no-new-privs[no way to more privileges]' \
		'--confine-signals[it can signal nothing outside its tree]' \
		'--preserve-status[its own status in place of 124 and 129]' \
		'*'{-e+,--remap-exit=}'[exit 0 in place of this status]:status: ' \
		'--status-fd=[write events to this descriptor]:descriptor:_file_descriptors' \
		'*'{-v,--verbose}'[say what was stopped, why, and what was left]' \
		'--as=[be this program]:name:(timeout dumb-init docker-init catatonit tini)' \
		'(- : *)'{-h,--help}'[show the options]' \
		'(- : *)--version[show the version]' \
		'(- : *)'{-l,--license}'[show the license]' \
		'*-p+[act as on this signal when the parent ends]:signal:_treewrap_signals' \
		'-s[nothing]' \
		'-w[tell of every orphan that is reaped]' \
		'(-)1:command: _command_names -e' \
		'*::arguments: _treewrap_command'
}

_treewrap_ids() {
	local -a ids=(${${(f)"$(_call_program ids treewrapctl list 2>/dev/null)"}[2,-1]%% *})
	compadd "$@" -a ids
}

_treewrapctl_run() {
	local signal='2: : '
	[[ ${words[(r)signal]} == signal ]] && signal='3:signal:_treewrap_signals'
	_arguments -S \
		'--to=[who gets the signal]:target:(main group tree)' \
		'--json[the answers as they are]' \
		'(- : *)'{-h,--help}'[show the options]' \
		'(- : *)--version[show the version]' \
		'1:command:(list status tree signal stop wait)' \
		'2:id:_treewrap_ids' \
		${${(M)signal:#3*}:+$signal}
}

case $service in
treewrap) _treewrap_run ;;
treewrapctl) _treewrapctl_run ;;
esac
