#!/bin/sh
# A systemctl that knows two kinds of units: the kubelet, which it runs as
# kubeadm's drop-in for systemd does, and wg-quick@INTERFACE. What is active is
# known until the next boot, as with systemd: from files in /run.
umask 077
verb=$1
for unit; do :; done # the last argument
unit=${unit%.service}
state=/run/systemctl
mkdir -p "$state"

# The process may have ended: then its command line is empty or gone.
kubelet_active() { [ -e "$state/kubelet" ] && grep -q . "/proc/$(cat "$state/kubelet")/cmdline" 2>/dev/null; }

kubelet_stop() {
	! kubelet_active || kill "$(cat "$state/kubelet")" 2>/dev/null
	while kubelet_active; do sleep 0.05; done
	rm -f "$state/kubelet"
}

kubelet_start() {
	! kubelet_active || return 0
	# shellcheck source=/dev/null
	. /var/lib/kubelet/kubeadm-flags.env
	# shellcheck disable=SC2086 # several arguments in one variable, as in the drop-in
	kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
		--kubeconfig=/etc/kubernetes/kubelet.conf \
		--config=/var/lib/kubelet/config.yaml \
		${KUBELET_CONFIG_DIR:+--config-dir="$KUBELET_CONFIG_DIR"} \
		$KUBELET_KUBEADM_ARGS >>"$KUBELET_LOG" 2>&1 </dev/null &
	echo $! >"$state/kubelet"
}

# wg-quick@ is a oneshot that stays active once it has run.
tunnel_active() { [ -e "$state/$unit" ]; }

tunnel_stop() {
	! tunnel_active || wg-quick down "${unit#wg-quick@}"
	rm -f "$state/$unit"
}

tunnel_start() { tunnel_active || { wg-quick up "${unit#wg-quick@}" && : >"$state/$unit"; }; }

case $unit in
kubelet) kind=kubelet ;;
wg-quick@*) kind=tunnel ;;
*) exit 0 ;;
esac
case $verb in
start) "${kind}_start" ;;
stop) "${kind}_stop" ;;
restart)
	"${kind}_stop"
	"${kind}_start"
	;;
is-active) "${kind}_active" ;;
enable)
	mkdir -p /etc/systemd/system/multi-user.target.wants
	wanted=/etc/systemd/system/multi-user.target.wants/$unit.service
	[ -e "$wanted" ] || : >"$wanted"
	;;
esac
