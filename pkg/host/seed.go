package host

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// The files of a host: of a folder that is carried to it, and of a cloud-init
// seed.
const (
	DiscoveryName = "discovery.conf"
	JoinName      = "join.yaml"
	UserDataName  = "user-data"
	MetaDataName  = "meta-data"
)

// joinFile is where the scripts of a host look for the join configuration, and
// scriptsFolder where they lie.
const (
	joinFile      = "/etc/kubernetes/dynk8s/join.yaml"
	scriptsFolder = "/usr/local/sbin"
)

// File is a file by its name.
type File struct {
	Name    string
	Content []byte
}

// Files are what is carried to a host by hand.
func Files(host string, a Added) []File {
	mark := func(content []byte) []byte { return append([]byte(marker(host)), content...) }
	return []File{{DiscoveryName, mark(a.Kubeconfig)}, {JoinName, mark(a.JoinConfiguration)}}
}

// Script is run on a host at its first boot.
type Script File

var scriptName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ValidateScripts returns why the scripts cannot be put into a seed, or nil.
func ValidateScripts(scripts []Script) error {
	seen := map[string]bool{}
	for _, s := range scripts {
		switch {
		case !scriptName.MatchString(s.Name):
			return fmt.Errorf("script %.64q: its name may hold letters, digits, dots, dashes and underscores only", s.Name)
		case seen[s.Name]:
			return fmt.Errorf("script %s is named twice", s.Name)
		case !strings.HasPrefix(string(s.Content), "#!"):
			return fmt.Errorf("script %s does not name its interpreter in the first line", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

type cloudConfig struct {
	WriteFiles []writeFile `json:"write_files"`
	RunCmd     [][]string  `json:"runcmd,omitempty"`
}

type writeFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	Encoding    string `json:"encoding"`
	Content     string `json:"content"`
}

type metaData struct {
	InstanceID    string `json:"instance-id"`
	LocalHostname string `json:"local-hostname"`
}

// Seed are the files of a cloud-init NoCloud seed with which a host joins at its
// first boot: they write what the host was given, and run the scripts in their
// order up to the first that fails. discoveryFile is where the join configuration
// looks for the discovery kubeconfig.
func Seed(host string, a Added, discoveryFile string, scripts []Script) ([]File, error) {
	if err := ValidateScripts(scripts); err != nil {
		return nil, err
	}
	files := Files(host, a)
	config := cloudConfig{WriteFiles: []writeFile{
		newWriteFile(discoveryFile, "0600", files[0].Content),
		newWriteFile(joinFile, "0600", files[1].Content),
	}}
	commands := []string{"set -e"}
	for _, s := range scripts {
		config.WriteFiles = append(config.WriteFiles, newWriteFile(path.Join(scriptsFolder, s.Name), "0755", s.Content))
		commands = append(commands, path.Join(scriptsFolder, s.Name))
	}
	if len(scripts) > 0 {
		config.RunCmd = [][]string{{"sh", "-c", strings.Join(commands, "\n")}}
	}
	userData, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("user data: %w", err)
	}
	// cloud-init does its work once for each instance id: a token that is made anew
	// is a new one.
	meta, err := yaml.Marshal(metaData{InstanceID: host + "-" + a.Token.UID(), LocalHostname: host})
	if err != nil {
		return nil, fmt.Errorf("meta data: %w", err)
	}
	return []File{
		{UserDataName, append([]byte("#cloud-config\n"+marker(host)), userData...)},
		{MetaDataName, append([]byte(marker(host)), meta...)},
	}, nil
}

func newWriteFile(path, mode string, content []byte) writeFile {
	return writeFile{
		Path: path, Owner: "root:root", Permissions: mode,
		Encoding: "b64", Content: base64.StdEncoding.EncodeToString(content),
	}
}
