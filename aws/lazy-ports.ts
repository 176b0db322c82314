import type { Json } from '#core/base/json.ts';
import type { BlobLinks, Blobs } from '#core/ports/blobs.ts';
import type { Llm, LlmAnswer, LlmRequest } from '#core/ports/llm.ts';
import type { Sandbox, SandboxSession, SandboxSpec, SandboxStatus } from '#core/ports/sandbox.ts';
import type {
  HostedService,
  ServiceLogLine,
  ServiceLogQuery,
  ServiceLogs,
  ServiceOrder,
  ServiceRef,
  ServiceReport,
} from '#core/ports/service-host.ts';
import type { Timer, Timers } from '#core/ports/timers.ts';
import type { UploadForm, UploadForms } from '#core/ports/upload-forms.ts';
import type { DataKey, Vault } from '#core/ports/vault.ts';
import type { EcsEvent, EventfulServiceHost } from './services/ecs-events.ts';

/**
 * Ports that load their SDK client on first use: a client takes as long to load as the rest of a function, and most requests
 * use neither S3 nor Secrets Manager.
 */
export class LazyBlobs implements Blobs {
  readonly #load: () => Promise<Blobs>;

  constructor(load: () => Promise<Blobs>) {
    this.#load = once(load);
  }

  async put(key: string, body: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    return (await this.#load()).put(key, body);
  }
  async get(key: string): Promise<Uint8Array | undefined> {
    return (await this.#load()).get(key);
  }
  async stream(key: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return (await this.#load()).stream(key);
  }
  async size(key: string): Promise<number | undefined> {
    return (await this.#load()).size(key);
  }
  async delete(key: string): Promise<void> {
    return (await this.#load()).delete(key);
  }
  async *list(prefix: string): AsyncGenerator<string> {
    yield* (await this.#load()).list(prefix);
  }
}

/** See {@link LazyBlobs}. */
export class LazyBlobLinks implements BlobLinks {
  readonly #load: () => Promise<BlobLinks>;

  constructor(load: () => Promise<BlobLinks>) {
    this.#load = once(load);
  }

  async get(key: string): Promise<string> {
    return (await this.#load()).get(key);
  }
}

/** See {@link LazyBlobs}. */
export class LazyLlm implements Llm {
  readonly #load: () => Promise<Llm>;

  constructor(load: () => Promise<Llm>) {
    this.#load = once(load);
  }

  async generate(request: LlmRequest): Promise<LlmAnswer> {
    return (await this.#load()).generate(request);
  }
}

/** See {@link LazyBlobs}. */
export class LazySandbox implements Sandbox {
  readonly #load: () => Promise<Sandbox>;

  constructor(load: () => Promise<Sandbox>) {
    this.#load = once(load);
  }

  async open(spec: SandboxSpec): Promise<SandboxSession> {
    return (await this.#load()).open(spec);
  }
  async attach(ref: Json): Promise<SandboxSession> {
    const sandbox = await this.#load();
    if (sandbox.attach === undefined) throw new Error('this host has no sandboxes that outlive a process');
    return sandbox.attach(ref);
  }
  async status(): Promise<SandboxStatus> {
    return (await this.#load()).status();
  }
  async close(): Promise<void> {}
}

/** See {@link LazyBlobs}. */
export class LazyServiceLogs implements ServiceLogs {
  readonly #load: () => Promise<ServiceLogs>;

  constructor(load: () => Promise<ServiceLogs>) {
    this.#load = once(load);
  }

  async logs(service: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]> {
    return (await this.#load()).logs(service, query);
  }
}

/** See {@link LazyBlobs}. */
export class LazyServiceHost implements EventfulServiceHost {
  readonly #load: () => Promise<EventfulServiceHost>;

  constructor(load: () => Promise<EventfulServiceHost>) {
    this.#load = once(load);
  }

  async deploy(order: ServiceOrder): Promise<void> {
    return (await this.#load()).deploy(order);
  }
  async update(order: ServiceOrder): Promise<void> {
    return (await this.#load()).update(order);
  }
  async restart(order: ServiceOrder): Promise<void> {
    return (await this.#load()).restart(order);
  }
  async resume(order: ServiceOrder): Promise<void> {
    return (await this.#load()).resume(order);
  }
  async pause(service: ServiceRef): Promise<void> {
    return (await this.#load()).pause(service);
  }
  async remove(service: ServiceRef): Promise<void> {
    return (await this.#load()).remove(service);
  }
  async address(service: ServiceRef): Promise<string | undefined> {
    return (await this.#load()).address(service);
  }
  async logs(service: ServiceRef, query: ServiceLogQuery): Promise<ServiceLogLine[]> {
    return (await this.#load()).logs(service, query);
  }
  async *list(): AsyncGenerator<HostedService> {
    yield* (await this.#load()).list();
  }
  async reportsOf(event: EcsEvent): Promise<ServiceReport[]> {
    return (await this.#load()).reportsOf(event);
  }
}

/** See {@link LazyBlobs}. */
export class LazyUploadForms implements UploadForms {
  readonly #load: () => Promise<UploadForms>;

  constructor(load: () => Promise<UploadForms>) {
    this.#load = once(load);
  }

  async create(blob: Parameters<UploadForms['create']>[0]): Promise<UploadForm> {
    return (await this.#load()).create(blob);
  }
}

/** See {@link LazyBlobs}. */
export class LazyVault implements Vault {
  readonly #load: () => Promise<Vault>;

  constructor(load: () => Promise<Vault>) {
    this.#load = once(load);
  }

  async read(workspaceId: string, names: readonly string[], areSomeEnough?: boolean): Promise<Record<string, string>> {
    return (await this.#load()).read(workspaceId, names, areSomeEnough);
  }
  async write(workspaceId: string, name: string, value: string): Promise<void> {
    return (await this.#load()).write(workspaceId, name, value);
  }
  async remove(workspaceId: string, name: string): Promise<void> {
    return (await this.#load()).remove(workspaceId, name);
  }
  async newDataKey(workspaceId: string): Promise<DataKey> {
    return (await this.#load()).newDataKey(workspaceId);
  }
  async openDataKey(workspaceId: string, sealed: string): Promise<Uint8Array> {
    return (await this.#load()).openDataKey(workspaceId, sealed);
  }
  async sealDataKey(workspaceId: string, key: Uint8Array): Promise<string> {
    return (await this.#load()).sealDataKey(workspaceId, key);
  }
}

/** See {@link LazyBlobs}. */
export class LazyTimers implements Timers {
  readonly #load: () => Promise<Timers>;

  constructor(load: () => Promise<Timers>) {
    this.#load = once(load);
  }

  async set(timer: Timer): Promise<void> {
    return (await this.#load()).set(timer);
  }
  async remove(timer: Timer): Promise<void> {
    return (await this.#load()).remove(timer);
  }
  async reconcile(...args: Parameters<Timers['reconcile']>): ReturnType<Timers['reconcile']> {
    return (await this.#load()).reconcile(...args);
  }
}

function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined;
  return () => {
    loaded ??= load();
    return loaded;
  };
}
