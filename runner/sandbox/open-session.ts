import { randomUUID } from 'node:crypto';
import { PROGRAM_FOLDERS } from '#core/manifest/bundle/layer-reader.ts';
import { readEgressTarget } from '#core/outbound/egress-target.ts';
import { EGRESS_PORT, type Egress, type SandboxSpec } from '#core/ports/sandbox.ts';
import { SDK_PYTHONPATH } from '../host-runtime.ts';
import { EgressProxy, type Gateway, type Registries, type Ways } from './egress-proxy.ts';
import type { SandboxProcess } from './launcher.ts';
import { homeOf, ProcessSession, type SessionOptions, variablesOf } from './session.ts';

export interface Network {
  /** The platform's own address, the only private address that sandboxes with egress may reach. */
  readonly gateway?: Gateway;
  /** Package registries that only installations may use, never runs. */
  readonly registries?: Registries;
  /** How sandboxes find what they connect to. @default - the machine's own resolver and network */
  readonly ways?: Ways;
}

const PROXY = `http://127.0.0.1:${EGRESS_PORT}`;

/**
 * Returns the ports that lead out of a sandbox, in the format of `init.pl`; empty if none. Agents find the platform at
 * the loopback address that it listens on. A port below 1024 is omitted, because only root could listen on it.
 */
export function portsOf(egress: Egress, { gateway }: Network): string {
  if (egress === 'none') return '';
  return gateway && gateway.port >= 1024 ? `egress=${EGRESS_PORT},gateway=${gateway.port}` : `egress=${EGRESS_PORT}`;
}

/**
 * Returns the ports that lead to the targets of a sandbox, in the format of `init.pl`. Each host has a loopback address
 * of its own, to which its name resolves inside, so that clients of any protocol find it at its usual port.
 */
export function targetPorts({ egress, egressTargets }: Pick<SandboxSpec, 'egress' | 'egressTargets'>): string[] {
  if (egress === 'none' || egressTargets === undefined) return [];
  const targets = egressTargets.targets.map(readEgressTarget);
  const hosts = [...new Set(targets.map(({ host }) => host))];
  return targets.map(
    ({ host, port }, index) => `${targetKind(index)}=${port}=${TARGET_NETWORK}.${hosts.indexOf(host) + 1}=${host}`,
  );
}

const targetKind = (index: number): string => `target-${index}`;
/** A part of 127.0.0.0/8 that programs do not use otherwise. */
const TARGET_NETWORK = '127.80.0';

/** Applies the limits and the network of `spec` to a started sandbox. `release` is called once the sandbox is gone. */
export function openProcessSession(
  sandbox: SandboxProcess,
  spec: SandboxSpec,
  network: Network,
  release: () => void,
  more: Pick<SessionOptions, 'ownProcesses' | 'connect' | 'onExec'> = {},
): ProcessSession {
  sandbox.watch(spec.limits);
  const registries = spec.purpose === 'install' ? network.registries : undefined;
  const stopEgress = serveEgress(sandbox, spec, { ...network, registries });
  return new ProcessSession({
    sandbox,
    spec,
    env: environmentOf(spec, registries?.env ?? {}),
    ...more,
    onClose: () => {
      stopEgress();
      release();
    },
  });
}

/**
 * Starts the interpreter of `command` in a sandbox that has no session yet (`stand_by` in `init.pl`). A session with this
 * spec then runs the command in it if that makes no difference to the program. The interpreter gets none of `spec.env`.
 */
export function standBy(sandbox: SandboxProcess, spec: SandboxSpec, command: string): void {
  sandbox.request('standby', command, homeOf(spec), ...variablesOf(environmentOf({ ...spec, env: {} }, {})));
}

function serveEgress(
  sandbox: SandboxProcess,
  { egress, egressTargets }: SandboxSpec,
  { gateway, registries, ways }: Network,
): () => void {
  if (egress === 'none') return () => {};
  let proxy: EgressProxy | undefined;
  // Created on first use: most agents make no connections.
  const get = () => {
    proxy ??= new EgressProxy({
      egress,
      gateway,
      origin: `sandbox ${randomUUID()}`,
      allowHosts: registries?.allowHosts,
      egressTargets,
      ways,
    });
    return proxy;
  };
  const stops = [
    sandbox.hostSocket.on(`egress ${sandbox.token}`, (socket) => get().accept(socket)),
    sandbox.hostSocket.on(`gateway ${sandbox.token}`, (socket) => get().acceptForGateway(socket)),
    ...(egressTargets?.targets ?? []).map((target, index) =>
      sandbox.hostSocket.on(`${targetKind(index)} ${sandbox.token}`, (socket) => {
        void get().acceptForTarget(socket, readEgressTarget(target));
      }),
    ),
  ];
  return () => {
    for (const stop of stops) stop();
    proxy?.close();
  };
}

/** The platform's own variables take precedence: a secret named HOME must not mislead a program. */
function environmentOf(spec: SandboxSpec, registry: Readonly<Record<string, string>>): Record<string, string> {
  const layerPath = spec.layer === undefined ? [] : PROGRAM_FOLDERS.map((folder) => `/layer/${folder}`);
  // The packages of the layer's `venv` need no variable.
  const python = [spec.env.PYTHONPATH, spec.layer === undefined ? undefined : '/layer/python', SDK_PYTHONPATH];
  return {
    ...(spec.egress !== 'none' && {
      HTTP_PROXY: PROXY,
      HTTPS_PROXY: PROXY,
      http_proxy: PROXY,
      https_proxy: PROXY,
      NO_PROXY: 'localhost,127.0.0.1',
      no_proxy: 'localhost,127.0.0.1',
      NODE_USE_ENV_PROXY: '1',
    }),
    ...registry,
    ...spec.env,
    PYTHONPATH: python.filter(Boolean).join(':'),
    PATH: [...layerPath, '/runtime/bin', '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
    HOME: '/home/user',
    USER: 'user',
    LANG: 'C.UTF-8',
    SHELL: '/bin/bash',
    TERM: 'dumb',
    TMPDIR: '/tmp',
  };
}
