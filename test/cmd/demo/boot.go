//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/test/boot"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// firstBoot is the demonstration of what an instance does by itself.
type firstBoot struct {
	*scene
	world    *boot.World
	instance *boot.Instance
}

// runBoot shows the first boot of an instance: the script of its user data, in
// network namespaces, through real WireGuard.
func runBoot(ctx context.Context, t *timeline, dir string) (err error) {
	t.raw("Building what has to be built; the first time this takes a while.")
	program, err := daemon.Build(ctx, dir, false)
	if err != nil {
		return err
	}
	world, err := boot.Start(ctx, boot.Options{Dir: dir, Program: program, Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Stop()) }()
	b := &firstBoot{world: world, scene: &scene{timeline: t, dir: dir, stack: world.Stack, client: world.Client, ec2: world.EC2}}
	t.start()
	for _, act := range []func(context.Context) error{b.launch, b.bootAndJoin, b.again, b.reboot, b.terminate} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	t.say("done")
	return nil
}

func (b *firstBoot) launch(ctx context.Context) (err error) {
	b.act("A WireGuard server, a key of its pool, the provisioner; an instance is launched")
	if _, err := b.world.AddKey(ctx); err != nil {
		return err
	}
	if b.instance, err = b.world.Launch(ctx, boot.Launching{}); err != nil {
		return err
	}
	return b.await(ctx, string(b.instance.ID)+" has a WireGuard key and a bootstrap token", func() error {
		_, err := b.world.KeyOf(ctx, b.instance.ID)
		return err
	})
}

func (b *firstBoot) bootAndJoin(ctx context.Context) error {
	b.act("It boots: IMDS, a way to the internet, and no way to the API server at %s", boot.APIServer)
	if err := b.instance.PowerOn(ctx); err != nil {
		return err
	}
	if err := b.reaches(ctx, false); err != nil {
		return err
	}
	if err := b.join(ctx, "dynk8s-join: joined"); err != nil {
		return err
	}
	if err := b.await(ctx, "the Node is Ready", func() error { return b.ready(ctx, b.instance.ID) }); err != nil {
		return err
	}
	if err := b.reaches(ctx, true); err != nil {
		return err
	}
	transfer, err := b.instance.Tunnel(ctx)
	if err != nil {
		return err
	}
	b.say("through the tunnel: %d KiB received, %d KiB sent", transfer.Received>>10, transfer.Sent>>10)
	return b.kubectl(ctx, "get", "nodes", "-o",
		"custom-columns=NAME:.metadata.name,ADDRESS:.status.addresses[0].address,PROVIDER-ID:.spec.providerID")
}

func (b *firstBoot) again(ctx context.Context) error {
	b.act("It runs once more")
	return b.join(ctx, "nothing to do")
}

func (b *firstBoot) reboot(ctx context.Context) error {
	b.act("The power is cut, and it boots again")
	if err := errors.Join(b.instance.PowerOff(), b.instance.PowerOn(ctx)); err != nil {
		return err
	}
	if err := b.join(ctx, "nothing to do"); err != nil {
		return err
	}
	return b.reaches(ctx, true)
}

func (b *firstBoot) terminate(ctx context.Context) error {
	id := b.instance.ID
	b.act("%s is terminated", id)
	if err := b.world.Terminate(ctx, b.instance); err != nil {
		return err
	}
	return b.await(ctx, "its Node and its token are gone, its key is free again", func() error {
		if _, err := b.client.CoreV1().Nodes().Get(ctx, string(id), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the Node is there"), err)
		}
		tokens, err := keys.Tokens(ctx, b.client, id)
		if err != nil || len(tokens) > 0 {
			return errors.Join(errors.New("the token is there"), err)
		}
		held, err := keys.ByHolder(ctx, b.client, boot.Namespace)
		if err != nil || len(held[id]) > 0 {
			return errors.Join(errors.New("the key is held"), err)
		}
		return nil
	})
}

// telling are the lines to show: kubeadm lists the kernel's options, too.
var telling = regexp.MustCompile(`^(dynk8s-join: |\[kubelet-|This node has joined)`)

// join runs the script as its unit does, shows its lines and wants it to end well
// with that one.
func (b *firstBoot) join(ctx context.Context, last string) error {
	b.raw("$ systemctl start dynk8s-join; journalctl -u dynk8s-join")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	journal, code, err := b.instance.Join(ctx)
	for line := range strings.Lines(journal) {
		if telling.MatchString(line) {
			b.raw(strings.TrimRight(line, "\n"))
		}
	}
	if err != nil {
		return err
	}
	if code != 0 || !strings.Contains(journal, last) {
		return fmt.Errorf("dynk8s-join ended with code %d and without %q", code, last)
	}
	b.say("✓ it ends with code 0")
	return nil
}

func (b *firstBoot) reaches(ctx context.Context, want bool) error {
	got, err := b.instance.ReachesAPIServer(ctx)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the instance reaches the API server: %v, want %v", got, want)
	}
	if want {
		b.say("✓ the API server answers")
	} else {
		b.say("✓ the API server does not answer")
	}
	return nil
}
