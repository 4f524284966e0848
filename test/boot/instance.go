//go:build linux

package boot

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/imds"
	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
	"dynk8s.du5t1n.me/provisioner/test/join"
)

//go:embed kubeadm.sh
var kubeadm []byte

// Where things are on an instance.
const (
	Interface    = "dynk8s"
	scriptPath   = "/usr/local/sbin/dynk8s-join"
	settingsPath = "/etc/dynk8s/join.env"
	caPath       = "/etc/dynk8s/ca.pem"
	stubs        = "/usr/local/lib/stubs" // what stands in for systemd
	kubeletDir   = stubs + "/kubelet.d"
	criSocket    = "/var/run/crio/crio.sock"
	imdsAddress  = "169.254.169.254"
)

// Instance is an EC2 instance, once launched.
type Instance struct {
	ID   instance.ID
	IMDS *imds.Server

	site    *site
	number  int // its public address is 198.51.100.number
	boots   int
	files   []machine.File
	machine *machine.Machine
	http    *http.Server
	relay   *machine.Relay
	socket  string // of IMDS
}

// newInstance makes an instance that is switched off.
func (s *site) newInstance(id instance.ID, number int, service *imds.Server, l Launching) (*Instance, error) {
	script, err := os.ReadFile(s.programs.joinScript)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{
		"DYNK8S_ENDPOINT": "https://" + endpointName, "DYNK8S_CA_FILE": caPath,
		"DYNK8S_IMDS": "http://" + imdsAddress,
	}
	maps.Copy(settings, l.Settings)
	var env strings.Builder
	for k, v := range settings {
		_, _ = fmt.Fprintf(&env, "%s=%s\n", k, v)
	}
	kubelet := append([]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"), join.KubeletPatch...)
	hosts := fmt.Sprintf("127.0.0.1 localhost %s\n%s %s\n", id, siteAddress, endpointName)
	i := &Instance{ID: id, IMDS: service, site: s, number: number, files: []machine.File{
		{Path: scriptPath, Data: script, Mode: 0o755},
		{Path: settingsPath, Data: []byte(env.String()), Mode: 0o600},
		{Path: caPath, Data: l.CA, Mode: 0o644},
		{Path: "/etc/hosts", Data: []byte(hosts), Mode: 0o644},
		{Path: stubs + "/systemctl", Data: join.Systemctl, Mode: 0o755},
		{Path: stubs + "/kubeadm", Data: kubeadm, Mode: 0o755},
		{Path: kubeletDir + "/10-namespaces.conf", Data: kubelet, Mode: 0o644},
	}}
	if i.relay, err = machine.NewRelay(); err != nil {
		return nil, err
	}
	return i, i.serveIMDS()
}

func (i *Instance) serveIMDS() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	i.http = &http.Server{Handler: i.IMDS, ReadHeaderTimeout: time.Minute}
	go func() { _ = i.http.Serve(l) }() // until it is closed
	i.socket, err = i.relay.Add("imds", l.Addr().String())
	return err
}

// PowerOn boots the instance as far as a systemd without units would: files,
// network, container runtime. At the second time its disk is as it was.
func (i *Instance) PowerOn(ctx context.Context) (err error) {
	i.boots++
	i.machine, err = i.site.machine.Spawn(ctx, machine.Settings{
		Name: string(i.ID), Files: i.files,
		Overlaid: map[string][]string{
			"/etc": {"kubernetes", "wireguard", "dynk8s", "systemd/system"},
			"/var": {"lib", "log"},
			"/usr": {"libexec", "local/sbin"},
		},
	})
	if err != nil {
		return err
	}
	if err := i.plugIn(ctx); err != nil {
		return err
	}
	err = i.machine.Forward(ctx, machine.Forwarding{Address: imdsAddress + ":80", Socket: i.socket})
	if err != nil {
		return err
	}
	if err := i.do(ctx, "mkdir", "-p", filepath.Dir(criSocket)); err != nil {
		return err
	}
	return i.machine.Launch(ctx, machine.Command{
		Args: []string{"fakecri", "unix://" + criSocket}, Env: i.env(), Log: i.log("crio"),
	})
}

// plugIn lays the cable. The name at the cluster's end differs from boot to boot:
// the kernel may still be taking the last one away.
func (i *Instance) plugIn(ctx context.Context) error {
	address, cable := fmt.Sprintf("198.51.100.%d", i.number), fmt.Sprintf("cloud%d-%d", i.number, i.boots)
	there, here := i.site.machine, i.machine
	for _, step := range []struct {
		on   *machine.Machine
		args string
	}{
		{there, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", cable, here.PID)},
		{there, "link set " + cable + " up"},
		{there, "route replace " + address + "/32 dev " + cable + " src " + siteAddress},
		{here, "link set lo up"},
		{here, "address add " + imdsAddress + "/32 dev lo"},
		{here, "address add " + address + "/32 dev eth0"},
		{here, "link set eth0 up"},
		// The whole internet is behind the cable: the API server's address, too, as
		// long as no tunnel is up.
		{here, "route add " + siteAddress + "/32 dev eth0"},
		{here, "route add default via " + siteAddress},
	} {
		if _, err := output(ctx, step.on, nil, append([]string{"ip"}, strings.Fields(step.args)...)...); err != nil {
			return err
		}
	}
	return nil
}

// Run runs a command on the instance, as root there.
func (i *Instance) Run(ctx context.Context, args ...string) (said string, code int, err error) {
	r, err := i.machine.Run(ctx, machine.Command{Args: args, Env: i.env()})
	return string(r.Output), r.Code, err
}

// Join runs the script, which is what its unit does, and returns what goes to
// the journal and the exit code.
func (i *Instance) Join(ctx context.Context) (journal string, code int, err error) {
	journal, code, err = i.Run(ctx, scriptPath)
	if err != nil {
		return journal, code, err
	}
	f, err := os.OpenFile(i.log("journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return journal, code, err
	}
	_, err = f.WriteString(journal)
	return journal, code, errors.Join(err, f.Close())
}

// do runs a command that must succeed.
func (i *Instance) do(ctx context.Context, args ...string) error {
	_, err := output(ctx, i.machine, i.env(), args...)
	return err
}

// PowerOff ends every process of the instance at once. The disk stays.
func (i *Instance) PowerOff() error {
	if i.machine == nil {
		return nil
	}
	err := i.machine.Stop()
	i.machine = nil
	return err
}

// close takes away what PowerOff leaves for the next boot.
func (i *Instance) close() error {
	err := i.PowerOff()
	i.relay.Stop()
	return errors.Join(err, i.http.Close())
}

func (i *Instance) env() []string {
	return append(i.site.programs.tunnelEnv(),
		"PATH="+stubs+":"+i.site.programs.controlPlane+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TMPDIR=/run", "HOME=/run",
		"KUBELET_LOG="+i.log("kubelet"), "KUBELET_CONFIG_DIR="+kubeletDir,
		"IGNORED_PREFLIGHT_ERRORS="+join.IgnoredPreflightErrors)
}

func (i *Instance) log(of string) string {
	return filepath.Join(i.site.machine.Dir(), string(i.ID)+"-"+of+".log")
}
