//go:build linux

package image

import (
	"os/exec"
	"strings"
	"testing"
)

// Versions may have characters that tags of images may not.
func TestVersionsBecomeTags(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	for version, tag := range map[string]string{
		"v1.2.3":              "v1.2.3",
		"v1.2.3-4-gabc-dirty": "v1.2.3-4-gabc-dirty",
		"v1.2.3+build.7":      "v1.2.3-build.7",
		"release/1.2":         "release-1.2",
		"":                    "dev",
	} {
		out, err := exec.CommandContext(t.Context(), "make", "-n", "-C", tree, "image", "IMAGE_BUILDER=docker", "VERSION="+version).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "-t 'dynk8s-provisioner:"+tag+"'") ||
			!strings.Contains(string(out), "VERSION='"+version+"'") {
			t.Errorf("%q: want the tag %s: %v\n%s", version, tag, err, out)
		}
	}
}

// What would be more than one word to a shell or to the linker is no version.
func TestOddVersionsAreRefused(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	for _, version := range []string{"a b", "v1'", `v1"`, "v1;id", "v1`id`"} {
		for _, target := range []string{"image", "release"} {
			out, err := exec.CommandContext(t.Context(), "make", "-C", tree, target, "IMAGE_BUILDER=docker",
				"DIST="+t.TempDir(), "VERSION="+version).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "VERSION may have") {
				t.Errorf("make %s VERSION=%q: %v\n%s", target, version, err, out)
			}
		}
	}
}
