import { join, resolve } from 'node:path';
import type { Blobs } from '#core/ports/blobs.ts';
import { NoSandbox } from '#core/ports/no-sandbox.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import type { Space } from '#core/ports/space.ts';
import { findHostRuntime, type HostRuntime } from '#runner/host-runtime.ts';
import { ContentCache } from '#runner/sandbox/content-cache.ts';
import type { Gateway, Registries, Ways } from '#runner/sandbox/egress-proxy.ts';
import { createNamespaceSandbox } from '#runner/sandbox/namespace-sandbox.ts';
import { removeLeftovers } from '#runner/sandbox/scratch.ts';
import { UnsandboxedSandbox } from './unsandboxed.ts';

export interface LocalSandboxOptions {
  /** Absolute path of the cache of expanded bundles and layers. */
  readonly cacheFolder: string;
  /** Source of bundles and layers. */
  readonly blobs: Blobs;
  /** Free space on the cache's disk. @default - unlimited */
  readonly space?: Space;
  /** @default 'auto': unshare if available (half the cost of bubblewrap), else bubblewrap */
  readonly kind?: 'auto' | 'bubblewrap' | 'unshare' | 'unsandboxed';
  /** The platform's own address, the only private address that sandboxes with egress may reach. */
  readonly gateway?: Gateway;
  /** Package registries that only installations may use, never runs. */
  readonly registries?: Registries;
  /** How sandboxes find what they connect to. @default - the machine's own resolver and network */
  readonly ways?: Ways;
  /** Number of sandboxes started in advance for recently used agents. @default 4 */
  readonly prestart?: number;
  readonly log?: (line: string) => void;
}

/** Succeeds even if the host cannot isolate. Then `status` gives the reason and `open` throws. */
export async function createLocalSandbox(options: LocalSandboxOptions): Promise<Sandbox> {
  await removeLeftovers();
  const cacheFolder = resolve(options.cacheFolder);
  const cache = await ContentCache.open(cacheFolder, options.blobs, { space: options.space });
  const runtime = await findHostRuntime(join(cacheFolder, 'runtime'));
  if (options.kind === 'unsandboxed') return new UnsandboxedSandbox(cache, runtime);
  const kinds = options.kind === undefined || options.kind === 'auto' ? undefined : [options.kind];
  const sandboxOrProblems = await createNamespaceSandbox({ ...options, cacheFolder, cache, runtime, kinds });
  return Array.isArray(sandboxOrProblems) ? noSandbox(sandboxOrProblems, runtime) : sandboxOrProblems;
}

const noSandbox = (problems: readonly string[], { interpreters }: HostRuntime): NoSandbox =>
  new NoSandbox(
    `No sandbox works on this host (${problems.join('; ')}). ` +
      'Install bubblewrap (Debian: apt-get install bubblewrap), or allow user namespaces ' +
      '(sysctl user.max_user_namespaces, and kernel.apparmor_restrict_unprivileged_userns=0 where that exists); ' +
      'Perl is required, too. Then restart the platform.',
    interpreters,
  );
