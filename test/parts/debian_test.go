//go:build linux

package parts

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeApt puts an apt-get on PATH, and nothing else, that notes its arguments
// and then runs script.
func fakeApt(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	body := "#!/bin/sh\necho \"$*\" >>" + dir + "/calls\n" + strings.ReplaceAll(script, "DIR", dir)
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMissingProgramsAreSaidWithTheCommandThatInstallsThem(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	err := Debian(t.Context(), nil, "wg", "wg-quick", "bats")
	want := "apt-get install -y --no-install-recommends wireguard-tools bats"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want it to end with %q", err, want)
	}
}

func TestAProgramWithoutAPackageIsAnError(t *testing.T) {
	t.Parallel()
	if err := Debian(t.Context(), nil, "no-such-program"); err == nil || !strings.Contains(err.Error(), "debianPackages") {
		t.Errorf("got %v", err)
	}
}

func TestMissingPackagesAreInstalledWithFreshListsWhenNeeded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("must be run by root")
	}
	dir := fakeApt(t, `
[ "$1" != update ] || { : >DIR/fresh; exit 0; }
[ -e DIR/fresh ] || exit 100
printf '#!/bin/sh\n' >DIR/bats
/bin/chmod 700 DIR/bats
`)
	var out bytes.Buffer
	if err := Debian(t.Context(), &out, "bats"); err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	install := "install -y --no-install-recommends bats\n"
	if want := install + "update\n" + install; string(calls) != want {
		t.Errorf("got calls %q, want %q", calls, want)
	}
	if !strings.Contains(out.String(), "apt-get install") {
		t.Errorf("nothing was said: %q", out.String())
	}
}

func TestAFailedInstallationIsSaidWithItsCommand(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("must be run by root")
	}
	fakeApt(t, "exit 100\n")
	err := Debian(t.Context(), nil, "bats")
	if err == nil || !strings.Contains(err.Error(), "apt-get update && apt-get install -y") {
		t.Errorf("got %v", err)
	}
}
