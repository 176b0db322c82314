import { join, resolve } from 'node:path';
import type { Blobs } from '#core/ports/blobs.ts';
import { NoSandbox } from '#core/ports/no-sandbox.ts';
import type { Sandbox } from '#core/ports/sandbox.ts';
import type { Space } from '#core/ports/space.ts';
import { findHostRuntime, type HostRuntime } from '#runner/host-runtime.ts';
import { ContentCache } from '#runner/sandbox/content-cache.ts';
import type { Gateway, Registries } from '#runner/sandbox/egress-proxy.ts';
import { createNamespaceSandbox } from '#runner/sandbox/namespace-sandbox.ts';
import { removeLeftovers } from '#runner/sandbox/scratch.ts';
import { UnsandboxedSandbox } from './unsandboxed.ts';

export interface LocalSandboxOptions {
  /** Absolute path. Expanded bundles and layers are kept here. */
  readonly cacheFolder: string;
  /** Where bundles and layers come from. */
  readonly blobs: Blobs;
  /** Of the disk of the cache. @default - endless */
  readonly space?: Space;
  /** @default 'auto': unshare where it works, at half of bubblewrap's cost, else bubblewrap */
  readonly kind?: 'auto' | 'bubblewrap' | 'unshare' | 'unsandboxed';
  /** The platform's own address: the one private address that sandboxes with egress may reach. */
  readonly gateway?: Gateway;
  /** Package registries that installations may use, and runs may not. */
  readonly registries?: Registries;
  /** Sandboxes kept started ahead for the agents used last. @default 4 */
  readonly prestart?: number;
  readonly log?: (line: string) => void;
}

/** Starts even where the host cannot isolate; then `status` says why, and `open` throws. */
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
      'perl is needed, too. Then start the platform again.',
    interpreters,
  );
