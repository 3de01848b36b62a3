package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// caller is who runs this program, as the operating system knows it: no flag
// and no variable that anybody may set says it. For root, who could be anybody,
// sudo's word is added. Over PostgreSQL the record also keeps the role that the
// server has authenticated.
func caller() string {
	uid := os.Getuid()
	name := fmt.Sprintf("uid %d", uid)
	// Not user.Current, which takes $USER for an account that has no entry.
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); uid == 0 && by != "" {
		name += " (sudo by " + by + ")"
	}
	return name
}
