import { join, resolve } from 'node:path';
import type { Blobs } from '#core/ports/blobs.ts';
import { type Sandbox, type SandboxStatus, SandboxUnavailableError } from '#core/ports/sandbox.ts';
import { ContentCache } from '#runner/content-cache.ts';
import type { Gateway, Registries } from '#runner/egress-proxy.ts';
import { findHostRuntime } from '#runner/host-runtime.ts';
import { createNamespaceSandbox } from '#runner/namespace-sandbox.ts';
import { UnsandboxedSandbox } from './unsandboxed.ts';

export interface LocalSandboxOptions {
  /** Absolute. Expanded bundles and layers are kept here. */
  readonly cacheFolder: string;
  /** Where bundles and layers come from. */
  readonly blobs: Blobs;
  /** @default 'auto': unshare where it works, which costs half of what bubblewrap does, else bubblewrap */
  readonly kind?: 'auto' | 'bubblewrap' | 'unshare' | 'unsandboxed';
  /** The platform's own address: the one private address that sandboxes with egress may reach. */
  readonly gateway?: Gateway;
  /** What installations may use besides: variables that lead pip and npm to a registry, and hosts that may be private. */
  readonly registries?: Registries;
  /** Sandboxes kept started ahead for the agents used last. @default 4 */
  readonly prestart?: number;
  readonly log?: (line: string) => void;
}

/** Starts even where nothing can be isolated; then `status` says why, and `open` throws. */
export async function createLocalSandbox(options: LocalSandboxOptions): Promise<Sandbox> {
  const cacheFolder = resolve(options.cacheFolder);
  const cache = await ContentCache.open(cacheFolder, options.blobs);
  const runtime = await findHostRuntime(join(cacheFolder, 'runtime'));
  if (options.kind === 'unsandboxed') return new UnsandboxedSandbox(cache, runtime);
  const kinds = options.kind === undefined || options.kind === 'auto' ? undefined : [options.kind];
  const made = await createNamespaceSandbox({ ...options, cacheFolder, cache, runtime, kinds });
  return Array.isArray(made) ? new NoSandbox(made, runtime.interpreters) : made;
}

class NoSandbox implements Sandbox {
  readonly #status: SandboxStatus & { problem: string };

  constructor(problems: readonly string[], interpreters: SandboxStatus['interpreters']) {
    const problem =
      `No sandbox works on this host (${problems.join('; ')}). ` +
      'Install bubblewrap (Debian: apt-get install bubblewrap), or allow user namespaces ' +
      '(sysctl user.max_user_namespaces, and kernel.apparmor_restrict_unprivileged_userns=0 where that exists); ' +
      'perl is needed, too. Then start the platform again.';
    this.#status = { kind: 'none', problem, interpreters };
  }

  async open(): Promise<never> {
    throw new SandboxUnavailableError(this.#status.problem);
  }

  async status(): Promise<SandboxStatus> {
    return this.#status;
  }

  async close(): Promise<void> {}
}
