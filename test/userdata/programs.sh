#!/bin/sh
# Stand-ins for the programs that would change the machine, all in one file: it
# does what the name says under which it is called. $WORLD holds what they were
# called with (calls) and should not have seen (leaks), how they shall behave (knobs/NAME) and their state (state/NAME).
# "die_at NAME" kills the run that is tested, as a power cut would.
name=${0##*/}
environment=$(env)
for file in "$WORLD"/secrets/*; do
	[ -e "$file" ] || continue
	read -r secret <"$file" || [ -n "$secret" ]
	case $environment$* in *"$secret"*) echo "$name was given $file" >>"$WORLD/leaks" ;; esac
done
# What curl writes is limited, and this would count.
[ "$name" != curl ] || exec "$REAL_CURL" "$@"
printf '%s %s\n' "$name" "$*" >>"$WORLD/calls"

knob() { [ -e "$WORLD/knobs/$1" ]; }
state() { [ -e "$WORLD/state/$1" ]; }
die_at() {
	[ "$(cat "$WORLD/knobs/die-at" 2>/dev/null)" = "$1" ] || return 0
	rm "$WORLD/knobs/die-at"
	kill -9 "-$(cat "$WORLD/pid")"
	while :; do /bin/sleep 1; done
}
write() { mkdir -p "${1%/*}" && printf '%s\n' "$2" >"$1"; }

kubernetes=$DYNK8S_ROOT/etc/kubernetes
flags=$DYNK8S_ROOT/var/lib/kubelet/kubeadm-flags.env

tunnel_starts() {
	die_at tunnel
	state link && exit 1 # wg-quick up refuses when the interface exists
	knob no-interface && exit 1
	touch "$WORLD/state/link" "$WORLD/state/unit"
	date +%s >"$WORLD/state/handshake"
	knob tunnel-daemon && { # as wireguard-go, with what it inherits but standard output
		/bin/sleep 20 >/dev/null 2>&1 &
		echo $! >"$WORLD/daemon"
	}
	die_at tunnel-up
}

tunnel() {
	case $1 in
	enable) touch "$WORLD/state/tunnel-enabled" ;;
	is-active) state unit && state link ;;
	start) state unit || tunnel_starts ;;
	restart)
		state unit && rm -f "$WORLD/state/link" "$WORLD/state/unit"
		tunnel_starts
		;;
	esac
}

service() { # VERB SERVICE
	case $1 in
	enable) touch "$WORLD/state/enabled-$2" ;;
	disable) rm -f "$WORLD/state/enabled-$2" ;;
	is-enabled) state "enabled-$2" ;;
	start | restart)
		knob "fails-$2" && exit 1
		touch "$WORLD/state/active-$2"
		;;
	stop) rm -f "$WORLD/state/active-$2" ;;
	is-active) state "active-$2" ;;
	esac
}

systemctl_() {
	[ "$1" != --quiet ] || shift
	verb=$1
	for unit in "$@"; do :; done
	case $verb:$unit in
	*:wg-quick@*) tunnel "$verb" ;;
	stop:kubelet.service)
		# The kubelet of the interrupted join got its certificate meanwhile.
		knob kubelet-finishes && write "$kubernetes/kubelet.conf" finished
		service stop kubelet.service
		;;
	daemon-reload:*) ;;
	*) service "$verb" "$unit" ;;
	esac
}

kubeadm_join() {
	die_at join
	token=$(sed -n 's/^ *tlsBootstrapToken: //p' "$2")
	discovery=$DYNK8S_ROOT$(sed -n 's/^ *kubeConfigPath: //p' "$2")
	[ "$(stat -c %a "$2" "$discovery" | tr '\n' ' ')" = '600 600 ' ] || exit 3
	[ ! -e "$kubernetes/kubelet.conf" ] || exit 2
	for file in "$kubernetes/bootstrap-kubelet.conf" "$kubernetes/pki/ca.crt"; do
		[ ! -e "$file" ] || {
			echo "[ERROR FileAvailable]: $file already exists"
			exit 2
		}
	done
	echo "[preflight] careless output with the token $token"
	write "$kubernetes/bootstrap-kubelet.conf" "token: $token"
	die_at join-bootstrap
	write "$kubernetes/pki/ca.crt" certificate
	write "$flags" flags
	knob join-refused && {
		rm "$kubernetes/bootstrap-kubelet.conf"
		echo "error execution phase kubelet-start: not authorized: $token" >&2
		exit 1
	}
	die_at join-half
	write "$kubernetes/kubelet.conf" joined
	die_at join-kubelet
	rm "$kubernetes/bootstrap-kubelet.conf"
	die_at join-done
	echo 'This node has joined the cluster'
}

kubeadm_() {
	case $1 in
	join) shift && kubeadm_join "$@" ;;
	reset)
		die_at reset
		rm -rf "$kubernetes/kubelet.conf" "$kubernetes/bootstrap-kubelet.conf" "$kubernetes/pki" "$flags"
		;;
	esac
}

wg_() {
	case $3 in
	latest-handshakes)
		find "$DYNK8S_ROOT/run/dynk8s" -perm /077 | sed 's/^/open to others: /' >>"$WORLD/leaks"
		die_at handshake
		printf 'peer=\t%s\n' "$(if knob no-handshake; then echo 0; else cat "$WORLD/state/handshake"; fi)"
		;;
	persistent-keepalive) printf 'peer=\toff\n' ;;
	esac
}

ip_() {
	case "$1 $2" in
	'link show') state link ;;
	'link delete') rm -f "$WORLD/state/link" ;;
	esac
}

# Time passes only here.
sleep_() {
	read -r now _ <"$DYNK8S_ROOT/proc/uptime"
	printf '%s.00 0.00\n' $((${now%%.*} + ${1%%.*})) >"$DYNK8S_ROOT/proc/uptime"
}

dnf_() {
	[ -e "$WORLD/knobs/dnf-failures" ] || : >"$WORLD/knobs/dnf-failures"
	if [ -s "$WORLD/knobs/dnf-failures" ]; then
		sed -i 1d "$WORLD/knobs/dnf-failures"
		echo 'Failed to download metadata for repo' >&2
		exit 1
	fi
	for package in "$@"; do
		case $package in -* | install) ;; *) touch "$WORLD/state/package-$package" ;; esac
	done
	# The package of CRI-O brings its network.
	case $* in *cri-o*) write "$DYNK8S_ROOT/etc/cni/net.d/100-crio-bridge.conflist" '{}' ;; esac
}

case $name in dnf | modprobe | sysctl | systemctl) die_at "$name" ;; esac
case $name in
systemctl) systemctl_ "$@" ;;
kubeadm) kubeadm_ "$@" ;;
wg) wg_ "$@" ;;
ip) ip_ "$@" ;;
sleep) sleep_ "$@" ;;
dnf) dnf_ "$@" ;;
rpm) for package in "$@"; do :; done && state "package-$package" ;;
modprobe)
	for module in "$@"; do :; done
	! knob "no-module-$module" || state "package-kernel-modules-$(uname -r)"
	;;
swapoff) printf 'Filename Type\n' >"$DYNK8S_ROOT/proc/swaps" ;;
esac
