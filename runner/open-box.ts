import type { Egress, SandboxSession, SandboxSpec } from '#core/ports/sandbox.ts';
import { EgressProxy, type Gateway, type Registries } from './egress-proxy.ts';
import { SDK_PYTHONPATH } from './host-runtime.ts';
import type { Box } from './launcher.ts';
import { BoxSession } from './session.ts';

export interface Network {
  /** The platform's own address: the one private address that sandboxes with egress may reach. */
  readonly gateway?: Gateway;
  /** What installations may use besides: variables that lead pip and npm to a registry, and hosts that may be private. */
  readonly registries?: Registries;
}

const PROXY_PORT = 3128;
const PROXY = `http://127.0.0.1:${PROXY_PORT}`;

/**
 * Which ports lead out, as `inside.pl` takes them; empty where none does. Agents find the platform at the loopback address
 * that it listens on; below 1024 only root could listen.
 */
export function portsOf(egress: Egress, { gateway }: Network): string {
  if (egress === 'none') return '';
  return gateway && gateway.port >= 1024 ? `egress=${PROXY_PORT},gateway=${gateway.port}` : `egress=${PROXY_PORT}`;
}

/** Puts a started sandbox under the limits and the network of `spec`. `release` is called once it is gone. */
export function openBox(
  box: Box,
  spec: SandboxSpec,
  network: Network,
  release: () => void,
  more: { ownProcesses?: number } = {},
): SandboxSession {
  box.watch(spec.limits);
  const registries = spec.purpose === 'install' ? network.registries : undefined;
  const stopEgress = serveEgress(box, spec, { gateway: network.gateway, registries });
  return new BoxSession({
    box,
    spec,
    env: environmentOf(spec, registries?.env ?? {}),
    ...more,
    onClose: () => {
      stopEgress();
      release();
    },
  });
}

function serveEgress(box: Box, { egress }: SandboxSpec, { gateway, registries }: Network): () => void {
  if (egress === 'none') return () => {};
  let proxy: EgressProxy | undefined;
  // Made when first used: most agents connect to nothing.
  const get = () => {
    proxy ??= new EgressProxy({ egress, gateway, allowHosts: registries?.allowHosts });
    return proxy;
  };
  const stops = [
    box.door.on(`egress ${box.token}`, (socket) => get().accept(socket)),
    box.door.on(`gateway ${box.token}`, (socket) => get().acceptForGateway(socket)),
  ];
  return () => {
    for (const stop of stops) stop();
    proxy?.close();
  };
}

/** Ours come last: a secret named HOME must not lead a program astray. */
function environmentOf(spec: SandboxSpec, registry: Readonly<Record<string, string>>): Record<string, string> {
  const layerPath = spec.layer === undefined ? [] : ['/layer/python/bin', '/layer/node_modules/.bin'];
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
