/** User of the service, and name of its folder below /var/lib. */
const NAME = 'agent-platform';
/** Grace period for calls in progress (`server.ts`) before systemd kills the process. */
const STOP_SECONDS = 310;

export interface UnitOptions {
  /** Program and arguments that start the platform. */
  readonly program: readonly string[];
  /** Root folder of the platform's code. */
  readonly root: string;
}

/**
 * Returns a systemd unit. It drops the privileges that sandboxes do not need. Sandboxes create user, mount, process and
 * network namespaces and mount their own `/proc`, which the kernel allows only if no part of the service's `/proc` is
 * masked. So these options are not set: RestrictNamespaces, PrivateUsers, ProtectKernelTunables, ProtectKernelLogs,
 * ProtectControlGroups, ProtectProc, ProcSubset, ProtectHostname, SystemCallFilter. MemoryDenyWriteExecute would stop
 * Node's compiler.
 */
export const systemdUnit = ({ program, root }: UnitOptions): string => `[Unit]
Description=Agent hosting platform
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User=${NAME}
Group=${NAME}
StateDirectory=${NAME}
StateDirectoryMode=0700
WorkingDirectory=/var/lib/${NAME}
Environment=PLATFORM_DATA=/var/lib/${NAME}
EnvironmentFile=-/etc/${NAME}.env
ExecStart=${[...program, '--no-examples'].map(quoted).join(' ')}
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=${STOP_SECONDS}
LimitNOFILE=65536
TasksMax=16384
OOMPolicy=continue

# The kernel holds the limits of sandboxes, where this machine has cgroup v2.
Delegate=cpu io memory pids

# Nothing of this keeps sandboxes from working.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=${/^\/(home|root)\//.test(`${root}/`) ? 'read-only' : 'yes'}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
UMask=0077

[Install]
WantedBy=multi-user.target
`;

/** Quotes a word of a command line (systemd.service(5)). */
const quoted = (word: string): string =>
  /^[\w./=@:+,-]+$/.test(word)
    ? word
    : `"${word.replaceAll(/["\\]/g, '\\$&').replaceAll('%', '%%').replaceAll('$', '$$$$')}"`;
