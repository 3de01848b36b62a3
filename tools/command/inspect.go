//go:build unix

package command

import (
	"regexp"
	"strings"
)

// Inspect returns programs that look at files, with the flags of theirs that
// write nothing and run nothing: ls, cat, head, tail, wc, grep, sort, uniq,
// diff, find, echo, date, and status, log, show, diff, ls-files and branch of
// git. They may read whatever the process may. A host that declares a tool with
// them alone readonly must see to it that nobody else can write into .git: git
// runs filters that a repository's own configuration names.
func Inspect() []Program {
	one := func(name, flags string, operands int) Program {
		return Program{Name: name, Forms: []Form{{Flags: strings.Fields(flags), Operands: operands}}}
	}
	find := one("find", "-name= -iname= -path= -ipath= -type= -maxdepth= -mindepth= -size= -mtime= -mmin= -newer= -empty -not -o -a -print -print0 -prune", -1)
	find.Forms[0].WholeFlags = true
	// In the ways of old, which GNU still takes, tail +1f, +f and -cf follow for ever.
	tail := one("tail", "-n= -c= -q -v -# --lines= --bytes=", -1)
	tail.Forms[0].refuse = regexp.MustCompile(`^(\+|-c?f)`)
	git := Program{Name: "git"}
	show := "--stat --shortstat --name-only --name-status --oneline -p --patch -U= --no-color --no-renames -w -#"
	for _, f := range []struct {
		word, flags string
		operands    int
		insert      []string
	}{
		{"status", "-s --short -b --branch --porcelain --", -1, []string{noSubmodules}},
		{"log", show + " -n= --max-count= --since= --until= --author= --grep= --format= --graph --all --follow --", -1, plainDiff()},
		{"show", show + " --format= --", -1, plainDiff()},
		{"diff", show + " --cached --staged --check --", -1, plainDiff()},
		{"ls-files", "-c -m -o --others --modified --exclude-standard --", -1, nil},
		{"branch", "-a -r -v --all --remotes --show-current --no-color", 0, nil},
	} {
		git.Forms = append(git.Forms, Form{Words: []string{f.word}, Insert: f.insert, Flags: strings.Fields(f.flags), Operands: f.operands})
	}
	return []Program{
		one("ls", "-1 -a -A -l -h -R -r -t -S -d -F --all --almost-all --color[=]", -1),
		one("cat", "-n -b -s -A -E -T --number --", -1),
		one("head", "-n= -c= -q -v -# --lines= --bytes=", -1),
		tail,
		one("wc", "-l -w -c -m -L --lines --words --bytes --chars", -1),
		one("grep", "-n -r -R -i -v -w -x -c -l -L -o -h -H -s -q -E -F -a -I -e= -A= -B= -C= -m= -# --include= --exclude= --exclude-dir= --color[=] --", -1),
		one("sort", "-n -r -u -f -b -h -V -s -c -k= -t= --key= --unique --reverse", -1),
		one("uniq", "-c -d -u -i -f= -s= -w= --count", 1), // what comes second it writes to
		one("diff", "-u -U= -r -q -s -w -b -B -i -N --brief", 2),
		one("echo", "-n", -1),
		one("date", "-u -I[=] --utc", 0),
		find, git,
	}
}

// noSubmodules: a submodule has a configuration of its own, which may name
// programs too.
const noSubmodules = "--ignore-submodules=all"

func plainDiff() []string { return []string{"--no-ext-diff", "--no-textconv", noSubmodules} }
