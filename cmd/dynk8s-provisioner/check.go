package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"dynk8s.du5t1n.me/provisioner/pkg/config"
)

func newCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration file and list its profiles",
		Long: `Reads the configuration as run would, the environment and flags over the file,
and the certificates that artifacts.identity names, prints every problem with the
field it is in, and contacts nobody.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, warnings, err := config.Load(file, cmd.Flags(), os.Environ())
			for _, w := range warnings {
				cmd.PrintErrln("warning:", w)
			}
			if err != nil {
				return err
			}
			if err := checkProfiles(cfg); err != nil {
				return err
			}
			if _, err := newAuthorizer(cfg.Artifacts.Identity, nil, nil); err != nil {
				return err
			}
			for i, p := range cfg.Profiles {
				selects := fmt.Sprintf("%d conditions on tags", len(p.Selector))
				if p.MatchAll {
					selects = "every instance"
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "profile %d: %s (%s)\n", i+1, p.Name, selects); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "configuration is valid")
			return err
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

// addConfigFlags adds --config and the flags that override settings.
func addConfigFlags(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "path of the configuration file (YAML)")
	_ = cmd.MarkFlagRequired("config") // fails only for a flag that does not exist
	config.AddFlags(cmd.Flags())
}

// checkProfiles returns why run would refuse the profiles, or nil.
func checkProfiles(cfg *config.Config) error {
	if _, err := lifecycleProfiles(cfg, nil); err != nil {
		return err
	}
	_, err := nodeSettings(cfg.Profiles)
	return err
}
