#!/usr/bin/env bats
# dynk8s-node-setup

bats_require_minimum_version 1.5.0
load world

setup() {
	setup_world
	mkdir -p "$WORLD/secrets"
	node DYNK8S_KUBERNETES_VERSION=1.34
}

drop_in() { cat "$DYNK8S_ROOT/etc/$1"; }

@test "a Fedora machine is made ready, and a second run changes nothing" {
	script dynk8s-node-setup
	ends_with 0
	says "dynk8s-node-setup: ready: Kubernetes 1.34"
	called "dnf -y -q --setopt=install_weak_deps=False install kubernetes1.34 kubernetes1.34-kubeadm cri-o1.34 cri-tools1.34 "
	called "wireguard-tools"
	called "modprobe -q wireguard"
	called "sysctl -q -p $DYNK8S_ROOT/etc/sysctl.d/90-dynk8s.conf"
	called "systemctl --quiet restart crio.service"
	[ -e "$WORLD/state/enabled-crio.service" ]
	[ -e "$WORLD/state/enabled-kubelet.service" ]
	[ ! -e "$DYNK8S_ROOT/etc/cni/net.d/100-crio-bridge.conflist" ]
	says "removed CRI-O's default bridge network"
	drop_in crio/crio.conf.d/50-dynk8s.conf | grep -qx 'cgroup_manager = "systemd"'
	drop_in systemd/system/crio.service.d/50-dynk8s.conf | grep -q 'rm -f /etc/cni/net.d/100-crio-bridge.conflist'
	[ ! -e "$DYNK8S_ROOT/etc/subuid" ]
	not_called dnf5-automatic
	changes_nothing dynk8s-node-setup
}

@test "an interrupted first run is gone on with" {
	local step
	for step in dnf modprobe sysctl systemctl; do
		knob die-at $step
		script dynk8s-node-setup
		ends_with 137 || fail "$step"
	done
	script dynk8s-node-setup
	ends_with 0
	[ ! -e "$DYNK8S_ROOT/etc/cni/net.d/100-crio-bridge.conflist" ]
	[ -e "$WORLD/state/active-crio.service" ]
	[ -z "$(find "$DYNK8S_ROOT" -name '*.dynk8s-new')" ]
	changes_nothing dynk8s-node-setup
}

@test "swap goes: now, at boot, and Fedora's in compressed memory" {
	printf 'Filename Type\n/dev/zram0 partition\n' >"$DYNK8S_ROOT/proc/swaps"
	printf 'UUID=1 / ext4 defaults 0 1\nUUID=2 none swap defaults 0 0\n# UUID=3 none swap defaults 0 0\n' >"$DYNK8S_ROOT/etc/fstab"
	script dynk8s-node-setup
	ends_with 0
	called swapoff
	[ "$(drop_in fstab)" = "UUID=1 / ext4 defaults 0 1
# no swap on a Kubernetes node: UUID=2 none swap defaults 0 0
# UUID=3 none swap defaults 0 0" ]
	run ! grep -q '^\[' "$DYNK8S_ROOT/etc/systemd/zram-generator.conf"
	changes_nothing dynk8s-node-setup
}

@test "automatic updates and user namespaces, by choice" {
	node DYNK8S_KUBERNETES_VERSION=1.34 DYNK8S_DNF_AUTOMATIC=yes DYNK8S_USER_NAMESPACES=yes
	echo user:524288:65536 >"$DYNK8S_ROOT/etc/subuid"
	script dynk8s-node-setup
	ends_with 0
	called "install dnf5-plugin-automatic"
	drop_in dnf/automatic.conf | grep -qx 'apply_updates = yes'
	[ -e "$WORLD/state/active-dnf5-automatic.timer" ]
	[ "$(drop_in subuid)" = "user:524288:65536
containers:2147483648:268435456" ]
	grep -qx containers:2147483648:268435456 "$DYNK8S_ROOT/etc/subgid"
	drop_in crio/crio.conf.d/51-dynk8s-user-namespaces.conf | grep -q 'io.kubernetes.cri-o.userns-mode'
	changes_nothing dynk8s-node-setup
}

@test "an image: nothing is started, nothing of the running kernel is touched" {
	printf 'Filename Type\n/dev/zram0 partition\n' >"$DYNK8S_ROOT/proc/swaps"
	script dynk8s-node-setup --image
	ends_with 0
	[ -e "$WORLD/state/enabled-crio.service" ]
	not_called modprobe
	not_called sysctl
	not_called swapoff
	not_called "restart"
	# At the first boot of the image only what the image left open is done.
	: >"$WORLD/calls"
	script dynk8s-node-setup
	ends_with 0
	not_called dnf
	called "systemctl --quiet start crio.service"
}

@test "no image is made of a machine that has joined" {
	mkdir -p "$DYNK8S_ROOT/etc/kubernetes"
	echo joined >"$DYNK8S_ROOT/etc/kubernetes/kubelet.conf"
	script dynk8s-node-setup --image
	ends_with 2
	says "would believe that it has joined"
}

@test "dnf that fails is tried again" {
	printf 'once\ntwice\n' >"$WORLD/knobs/dnf-failures"
	script dynk8s-node-setup
	ends_with 0
	says "dnf failed, trying again in 5s"
	says "dnf failed, trying again in 10s"
}

@test "dnf that goes on failing ends it, and the next run goes on" {
	yes fails | head -5 >"$WORLD/knobs/dnf-failures"
	script dynk8s-node-setup
	ends_with 1
	says "Failed to download metadata"
	says "dnf cannot install kubernetes1.34"
	script dynk8s-node-setup
	ends_with 0
}

@test "a kernel module in a package that is not there" {
	knob no-module-wireguard
	script dynk8s-node-setup
	ends_with 0
	called "install kernel-modules-$(uname -r)"
}

@test "CRI-O that does not start" {
	knob fails-crio.service
	script dynk8s-node-setup
	ends_with 1
	says "systemctl restart crio.service failed: see journalctl -b"
	rm "$WORLD/knobs/fails-crio.service"
	script dynk8s-node-setup
	ends_with 0
	[ -e "$WORLD/state/active-crio.service" ]
}

@test "firewalld stays and is spoken of, or goes by choice" {
	touch "$WORLD/state/enabled-firewalld.service" "$WORLD/state/active-firewalld.service"
	script dynk8s-node-setup
	ends_with 0
	says "firewalld is on and stays as it is"
	[ -e "$WORLD/state/active-firewalld.service" ]
	node DYNK8S_KUBERNETES_VERSION=1.34 DYNK8S_FIREWALLD=disable
	script dynk8s-node-setup
	ends_with 0
	[ ! -e "$WORLD/state/active-firewalld.service" ]
	[ ! -e "$WORLD/state/enabled-firewalld.service" ]
}

@test "a full disk replaces nothing by half a file" {
	mkdir -p "$DYNK8S_ROOT/etc/crio"
	script dynk8s-node-setup
	ends_with 0
	mount -t tmpfs -o size=16k tmpfs "$DYNK8S_ROOT/etc/crio"
	cat /dev/zero >"$DYNK8S_ROOT/etc/crio/filler" 2>/dev/null || true
	script dynk8s-node-setup
	local ended=$status
	umount "$DYNK8S_ROOT/etc/crio"
	[ "$ended" = 1 ]
	says "is the disk full?"
	changes_nothing dynk8s-node-setup
}

@test "wrong settings, arguments and systems" {
	local line
	for line in DYNK8S_KUBERNETES_VERSION= DYNK8S_KUBERNETES_VERSION=1.34.2 DYNK8S_KUBERNETES_VERSION=v1.34 \
		DYNK8S_KUBERNETES_VERSION=2.1 DYNK8S_DNF_AUTOMATIC=true DYNK8S_USER_NAMESPACES=1 DYNK8S_FIREWALLD=no \
		'DYNK8S_EXTRA_PACKAGES=a;b' DYNK8S_KUBERNETES=1.34; do
		node DYNK8S_KUBERNETES_VERSION=1.34
		sed -i "/^${line%%=*}=/d" "$DYNK8S_ROOT/etc/dynk8s/node.env"
		echo "$line" >>"$DYNK8S_ROOT/etc/dynk8s/node.env"
		script dynk8s-node-setup
		ends_with 2 || fail "with $line"
	done
	node DYNK8S_KUBERNETES_VERSION=1.34
	script dynk8s-node-setup --help
	ends_with 2
	says "usage: dynk8s-node-setup [--image]"
	echo ID=debian >"$DYNK8S_ROOT/etc/os-release"
	script dynk8s-node-setup
	ends_with 2
	printf 'ID=fedora\nVERSION_ID=40\n' >"$DYNK8S_ROOT/etc/os-release"
	script dynk8s-node-setup
	ends_with 2
	says "this is not Fedora 41 or later"
	not_called dnf
}
