package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Says which build this is",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			version, revision, goVersion := "unknown", "", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version, goVersion = info.Main.Version, info.GoVersion
				for _, s := range info.Settings {
					switch {
					case s.Key == "vcs.revision":
						revision = s.Value
					case s.Key == "vcs.modified" && s.Value == "true":
						revision += ", with changes"
					}
				}
			}
			fmt.Fprintln(a.out, either(" ", "ledgerctl", version, with("", revision), goVersion))
			return nil
		},
	}
}
