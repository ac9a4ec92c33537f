# Completion for treewrap and treewrapctl in fish: options, their words, then the command's own.

function __treewrap_signals
	kill -l | string split -n ' '
end

# What is before the last comma or colon of the word, then each signal.
function __treewrap_more_signals
	set -l before (string match -r '.*[,:]' -- (commandline -ct | string replace -r '^--[a-z-]+=' ''))
	__treewrap_signals | string replace -r '^' -- "$before"
end

function __treewrap_ids
	treewrapctl list 2>/dev/null | string match -r '^[^ ]+' | tail -n +2
end

# The command and its words, if they have begun.
function __treewrap_command
	set -l tokens (commandline -opc) (commandline -ct)
	set -e tokens[1]
	# The rest is the command line of the program that it names.
	if test "$tokens[1]" = --as; and test (count $tokens) -gt 2
		string join0 -- $tokens[2..]
		return
	end
	argparse -s t/timeout= k/kill-after= e/remap-exit= p= g s w v/verbose h/help l/license \
		watch-stdin watch-fd= watch-parent watch-pid= stop-on= leftovers= linger= signal= \
		stop-scope= verify-for= contain= forward-to= rewrite= process-group= id= user= \
		as= caps= no-new-privs confine-signals preserve-status status-fd= version \
		-- $tokens 2>/dev/null; or return
	set -q argv[1]; and not string match -q -- '-*' $argv[1]; and string join0 -- $argv
end

function __treewrap_options
	not __treewrap_command >/dev/null
end

function __treewrap_complete_command
	complete -C (string join -- ' ' (string escape -- (__treewrap_command | string split0)))
end

# The words of treewrapctl so far that are no options, without its name.
function __treewrapctl_words
	set -l words
	set -l skip 0
	for word in (commandline -opc)[2..]
		if test $skip = 1
			set skip 0
		else if test "$word" = --to
			set skip 1
		else if not string match -q -- '-*' $word
			set -a words $word
		end
	end
	set -q words[1]; and printf '%s\n' $words
end

function __treewrapctl_at
	set -l words (__treewrapctl_words)
	test (count $words) = $argv[1]; or return
	test (count $argv) = 1; or contains -- $words[1] $argv[2..]
end

complete -c treewrap -x -n 'not __treewrap_options' -a '(__treewrap_complete_command)'
complete -c treewrap -x -n __treewrap_options -a '(__fish_complete_command)'
complete -c treewrap -n __treewrap_options -s t -l timeout -x -d 'Stop it after this time'
complete -c treewrap -n __treewrap_options -l watch-stdin -d 'Stop it when standard input hangs up'
complete -c treewrap -n __treewrap_options -l watch-fd -x -d '... when this descriptor hangs up'
complete -c treewrap -n __treewrap_options -l watch-parent -d '... when the process that started treewrap ends'
complete -c treewrap -n __treewrap_options -l watch-pid -x -a '(__fish_complete_pids)' -d '... when this process ends'
complete -c treewrap -n __treewrap_options -l stop-on -x -a '(__treewrap_more_signals)' -d '... when treewrap receives one of these'
complete -c treewrap -n __treewrap_options -l leftovers -x -a 'stop wait leave fail' -d 'What to do with what outlives it'
complete -c treewrap -n __treewrap_options -l linger -x -d 'Time for leftovers to end by themselves'
complete -c treewrap -n __treewrap_options -l signal -x -a '(__treewrap_signals)' -d 'Polite signal'
complete -c treewrap -n __treewrap_options -s k -l kill-after -x -d 'Time for a polite signal to work'
complete -c treewrap -n __treewrap_options -l stop-scope -x -a 'tree main' -d 'Who gets polite signals'
complete -c treewrap -n __treewrap_options -l verify-for -x -d 'Time to wait for the end after SIGKILL'
complete -c treewrap -n __treewrap_options -l contain -x -a 'tree cgroup pidns auto' -d 'What holds the tree together'
complete -c treewrap -n __treewrap_options -l forward-to -x -a 'main group tree' -d 'Who gets forwarded signals'
complete -c treewrap -n __treewrap_options -s g -d 'Forward signals to the process group'
complete -c treewrap -n __treewrap_options -l rewrite -x -a '(__treewrap_more_signals)' -d 'Forward TO in place of FROM'
complete -c treewrap -n __treewrap_options -l process-group -x -a 'new keep' -d 'Its process group'
complete -c treewrap -n __treewrap_options -l id -x -a auto -d 'Name of the run'
complete -c treewrap -n __treewrap_options -l user -x -a '(__fish_complete_users)' -d 'Run it as this user'
complete -c treewrap -n __treewrap_options -l as -x -a 'timeout dumb-init docker-init catatonit tini' -d 'Be this program'
complete -c treewrap -n __treewrap_options -l caps -x -a none -d 'Exactly these capabilities'
complete -c treewrap -n __treewrap_options -l no-new-privs -d 'No way to more privileges'
complete -c treewrap -n __treewrap_options -l confine-signals -d 'It can signal nothing outside its tree'
complete -c treewrap -n __treewrap_options -l preserve-status -d 'Its own status in place of 124 and 129'
complete -c treewrap -n __treewrap_options -s e -l remap-exit -x -d 'Exit 0 in place of this status'
complete -c treewrap -n __treewrap_options -l status-fd -x -d 'Write events to this descriptor'
complete -c treewrap -n __treewrap_options -s v -l verbose -d 'Say what was stopped, why, and what was left'
complete -c treewrap -n __treewrap_options -s h -l help -d 'Show the options'
complete -c treewrap -n __treewrap_options -l version -d 'Show the version'
complete -c treewrap -n __treewrap_options -s l -l license -d 'Show the license'
complete -c treewrap -n __treewrap_options -s p -x -a '(__treewrap_signals)' -d 'Act as on this signal when the parent ends'
complete -c treewrap -n __treewrap_options -s s -d 'Nothing'
complete -c treewrap -n __treewrap_options -s w -d 'Tell of every orphan that is reaped'

complete -c treewrapctl -f
complete -c treewrapctl -n '__treewrapctl_at 0' -a 'list status tree signal stop wait'
complete -c treewrapctl -n '__treewrapctl_at 1 status tree signal stop wait' -a '(__treewrap_ids)'
complete -c treewrapctl -n '__treewrapctl_at 2 signal' -a '(__treewrap_signals)'
complete -c treewrapctl -l to -x -a 'main group tree' -d 'Who gets the signal'
complete -c treewrapctl -l json -d 'The answers as they are'
complete -c treewrapctl -s h -l help -d 'Show the options'
complete -c treewrapctl -l version -d 'Show the version'
