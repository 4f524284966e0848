#!/usr/bin/env bats
# The scripts of hosts that are not in EC2.

load world

setup() {
	setup_world
	start_server
	sbin=$DYNK8S_ROOT/usr/local/sbin
	mkdir -p "$sbin"
	cp "$USERDATA/dynk8s-node-setup" "$USERDATA"/hosts/*.sh "$sbin"
	given=$DYNK8S_ROOT/etc/kubernetes/dynk8s
	give "$given"
}
teardown() { stop_server; }

# give FOLDER: what `dynk8s-provisioner host add` writes.
give() {
	mkdir -p "$1"
	sed "s|https://10.99.0.1:6443|https://127.0.0.1:$ENDPOINT_PORT|" "$WORLD/body/kubeconfig" >"$1/discovery.conf"
	sed '1i # Made by dynk8s-provisioner for host storage-1. Secret.' "$WORLD/body/join" >"$1/join.yaml"
	sed -i 's|^  name: .*|  kubeletExtraArgs:\n  - name: node-labels\n    value: du5t1n.me/at=home,node.longhorn.io/create-default-disk=true\n  name: storage-1|' \
		"$1/join.yaml"
	sed -i 's|^  taints: .*|  taints:\n  - effect: NoSchedule\n    key: node.longhorn.io/storage|' "$1/join.yaml"
	chmod 644 "$1"/*
}

host_joined() {
	ends_with 0
	[ "$(cat "$DYNK8S_ROOT/etc/kubernetes/kubelet.conf")" = joined ]
	[ -z "$(secret_files)" ] || fail "secrets are left: $(secret_files)"
	[ ! -e "$given/discovery.conf" ]
}

@test "a host joins, of the version that its cluster has, and a second run changes nothing" {
	script hosts/k8s-worker.sh
	host_joined
	says "k8s-worker: joined"
	called "install kubernetes1.34 kubernetes1.34-kubeadm cri-o1.34"
	changes_nothing hosts/k8s-worker.sh
	says "nothing to do"
}

@test "the files may lie elsewhere, and node.env goes before the cluster's version" {
	give "$WORLD/carried"
	rm "$given"/*
	node DYNK8S_KUBERNETES_VERSION=1.33
	script hosts/k8s-worker.sh "$WORLD/carried"
	host_joined
	[ ! -e "$WORLD/carried/join.yaml" ]
	called "install kubernetes1.33"
}

@test "run beside the common code, as in a clone" {
	run "$USERDATA/hosts/k8s-worker.sh"
	host_joined
}

@test "files that are missing or wrong" {
	local file
	for file in discovery.conf join.yaml; do
		mv "$given/$file" "$WORLD/away"
		script hosts/k8s-worker.sh
		ends_with 2
		says "$file is not there"
		echo nonsense >"$given/$file"
		script hosts/k8s-worker.sh
		ends_with 2
		says "$file is no "
		mv "$WORLD/away" "$given/$file"
	done
	script hosts/k8s-worker.sh one two
	ends_with 2
	not_called dnf
	script hosts/k8s-worker.sh
	host_joined
}

@test "a cluster that does not answer is said" {
	sed -i 's|^    server: .*|    server: https://127.0.0.1:1|' "$given/discovery.conf"
	script hosts/k8s-worker.sh
	ends_with 2
	says "or the cluster must answer"
	[ -e "$given/join.yaml" ]
}

@test "a join that is refused keeps the files for the next run" {
	knob join-refused
	script hosts/k8s-worker.sh
	ends_with 1
	says "kubeadm join failed"
	no_knobs
	script hosts/k8s-worker.sh
	host_joined
	called "kubeadm reset --force"
}

@test "power cuts at each step" {
	local step
	for step in dnf modprobe systemctl join join-bootstrap join-half join-kubelet join-done reset; do
		if [ "$step" = reset ]; then
			knob die-at join-half
			script hosts/k8s-worker.sh
			reboot
		fi
		knob die-at "$step"
		script hosts/k8s-worker.sh
		ends_with 137 || fail "$step"
		reboot
		script hosts/k8s-worker.sh
		host_joined
		anew
		rm -f "$WORLD"/state/package-*
		give "$given"
	done
}

@test "a storage worker has what Longhorn needs before it joins, and a second run changes nothing" {
	script hosts/k8s-longhorn.sh
	host_joined
	called "iscsi-initiator-utils nfs-utils cryptsetup device-mapper"
	called "modprobe iscsi_tcp"
	[ -e "$WORLD/state/active-iscsid.service" ]
	[ -e "$WORLD/state/enabled-iscsid.service" ]
	grep -q 'product "VIRTUAL-DISK"' "$DYNK8S_ROOT/etc/multipath/conf.d/dynk8s-longhorn.conf"
	[ "$(grep -n 'start iscsid' "$WORLD/calls" | cut -d: -f1)" -lt "$(grep -n 'kubeadm join' "$WORLD/calls" | cut -d: -f1)" ]
	changes_nothing hosts/k8s-longhorn.sh
}

@test "a storage worker without its label does not join" {
	sed -i 's|,node.longhorn.io/create-default-disk=true||' "$given/join.yaml"
	script hosts/k8s-longhorn.sh
	ends_with 2
	says "does not give the label node.longhorn.io/create-default-disk=true"
	not_called "kubeadm join"
	not_called dnf
}

@test "a storage worker without a taint joins and says so" {
	sed -i '/^  taints:/,$d' "$given/join.yaml"
	echo '  taints: []' >>"$given/join.yaml"
	script hosts/k8s-longhorn.sh
	host_joined
	says "the profile has no taint"
}

@test "multipathd takes up its blacklist" {
	touch "$WORLD/state/active-multipathd.service"
	script hosts/k8s-longhorn.sh
	host_joined
	called "systemctl reload multipathd.service"
}
