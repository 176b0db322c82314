import type { Json } from '#core/base/json.ts';
import { LayerError } from '#core/manifest/bundle/layer-reader.ts';
import {
  type ExecEvent,
  type ExecExit,
  type ExecRequest,
  KILLED_EXIT_CODE,
  type SandboxFile,
  SandboxFileError,
  type SandboxSession,
  SandboxUnavailableError,
} from '#core/ports/sandbox.ts';
import {
  decodeEvents,
  encodeExec,
  REUSE_HEADER,
  type RunnerHealth,
  type RunnerJob,
  type RunnerProblem,
  SILENCE_MS,
  WARM_HEADER,
} from './protocol.ts';

/** Address of a runner. */
export interface RunnerTarget {
  /** E.g. `http://10.0.3.7:8080`. */
  readonly baseUrl: string;
  /** Additional headers for a proxy on the way. */
  readonly headers?: Readonly<Record<string, string>>;
  /** @default the global one */
  readonly fetch?: typeof fetch;
}

/** Throws if the runner does not answer within `timeoutMs`. */
export async function runnerHealth(target: RunnerTarget, timeoutMs: number): Promise<RunnerHealth> {
  const response = await ask(target, 'GET', '/health', { signal: AbortSignal.timeout(timeoutMs) });
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as RunnerHealth;
}

/**
 * The one session of a runner, over HTTP (`protocol.ts`). It holds only the address and the token, so any process that
 * knows both can use a session that another process opened.
 */
export class RunnerSession implements SandboxSession {
  readonly ref?: Json;
  readonly #target: RunnerTarget;
  readonly #token: string;
  #closing: Promise<number> | undefined;

  /** @param ref What another process needs to use it. @default - no other process can */
  constructor(target: RunnerTarget, token: string, ref?: Json) {
    this.#target = target;
    this.#token = token;
    this.ref = ref;
  }

  /**
   * Claims the runner and waits until bundle and layer are ready. Throws an error with the `code` CLAIMED if the runner
   * already has a session, {@link SandboxUnavailableError}, or the network's error.
   *
   * @param options.reuse Key that its sessions share ({@link REUSE_HEADER}). @default - the runner serves no other
   * session
   */
  static async open(
    target: RunnerTarget,
    job: RunnerJob,
    { signal, reuse }: { readonly signal?: AbortSignal; readonly reuse?: string } = {},
  ): Promise<RunnerSession> {
    const body = Buffer.from(JSON.stringify(job));
    const headers = { ...target.headers, ...(reuse !== undefined && { [REUSE_HEADER]: reuse }) };
    const response = await ask({ ...target, headers }, 'POST', '/session', { body, signal });
    if (!response.ok) throw await problemOf(response);
    await response.body?.cancel();
    return new RunnerSession(target, job.token);
  }

  async *exec(request: ExecRequest): AsyncGenerator<ExecEvent> {
    const startedAt = performance.now();
    const exit = (reason: ExecExit['reason']): ExecEvent => ({
      type: 'exit',
      exit: { reason, exitCode: KILLED_EXIT_CODE, durationMs: performance.now() - startedAt },
    });
    const { signal, stdin, ...head } = request;
    if (signal?.aborted) return void (yield exit('aborted'));
    const stop = new AbortController();
    const onAbort = () => stop.abort();
    signal?.addEventListener('abort', onAbort);
    const silence = setTimeout(onAbort, SILENCE_MS);
    try {
      const response = await this.#ask('POST', '/exec', { body: encodeExec(head, stdin), signal: stop.signal });
      if (!response.ok) throw await problemOf(response);
      const heard = (async function* () {
        for await (const chunk of response.body!) {
          silence.refresh();
          yield chunk;
        }
      })();
      for await (const event of decodeEvents(heard)) {
        yield event;
        if (event.type === 'exit') return;
      }
    } catch (error) {
      // A rejected request is a bug of the platform. After any other error the runner or the network has failed.
      if ((error as { code?: unknown }).code === 'BAD_REQUEST') throw error;
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener('abort', onAbort);
      // A request that ends before the exit event makes the runner kill the command.
      stop.abort();
    }
    yield exit(signal?.aborted ? 'aborted' : 'sandbox_lost');
  }

  async writeFile(path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    let sourceError: { error: unknown } | undefined;
    async function* source() {
      try {
        yield* content as AsyncIterable<Uint8Array>;
      } catch (error) {
        sourceError = { error };
        throw error;
      }
    }
    const body = content instanceof Uint8Array ? content : ReadableStream.from(source());
    const response = await this.#askForFile('PUT', 'write', path, `/files?${query({ path })}`, { body }).catch(
      (error) => {
        throw sourceError ? sourceError.error : error;
      },
    );
    await response.body?.cancel();
  }

  async readFile(path: string): Promise<AsyncIterable<Uint8Array>> {
    const response = await this.#askForFile('GET', 'read', path, `/files?${query({ path })}`);
    return (async function* () {
      try {
        yield* response.body ?? [];
      } catch {
        throw lost('read', path);
      }
    })();
  }

  async listFiles(path: string, { recursive = false }: { recursive?: boolean } = {}): Promise<SandboxFile[]> {
    const response = await this.#askForFile('GET', 'list', path, `/list?${query({ path, recursive: `${recursive}` })}`);
    const { files } = (await response.json()) as { files: SandboxFile[] };
    return files;
  }

  /** Never throws: an unreachable runner ends by itself after its lifetime. */
  async close(): Promise<void> {
    await this.end();
  }

  /** Like {@link close}. Returns for how many milliseconds the runner waits for another session; 0 if it ends. */
  end(): Promise<number> {
    this.#closing ??= this.#ask('DELETE', '/session', { signal: AbortSignal.timeout(SILENCE_MS) }).then(
      async (response) => {
        await response.body?.cancel();
        return Number(response.headers.get(WARM_HEADER) ?? 0);
      },
      () => 0,
    );
    return this.#closing;
  }

  #ask(method: string, path: string, more: AskOptions = {}): Promise<Response> {
    return ask(this.#target, method, path, { ...more, token: this.#token });
  }

  async #askForFile(
    method: string,
    verb: string,
    file: string,
    path: string,
    more: AskOptions = {},
  ): Promise<Response> {
    if (this.#closing) throw lost(verb, file);
    const response = await this.#ask(method, path, more).catch(() => {
      throw lost(verb, file);
    });
    if (!response.ok) throw await problemOf(response);
    return response;
  }
}

interface AskOptions {
  readonly body?: Uint8Array | ReadableStream;
  readonly signal?: AbortSignal;
  readonly token?: string;
}

function ask(
  target: RunnerTarget,
  method: string,
  path: string,
  { body, signal, token }: AskOptions,
): Promise<Response> {
  const send = target.fetch ?? fetch;
  const headers = { ...target.headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) };
  // A streamed body needs `duplex`, which Node's types do not have yet.
  return send(new URL(path, target.baseUrl), { method, headers, body, signal, duplex: 'half' } as RequestInit);
}

const query = (values: Record<string, string>): string => new URLSearchParams(values).toString();

const lost = (verb: string, path: string): SandboxFileError =>
  new SandboxFileError(`cannot ${verb} ${path}: the sandbox is gone`, { isLost: true });

/** Returns the error that a response with a {@link RunnerProblem} stands for. */
export async function problemOf(response: Response): Promise<Error> {
  const text = await response.text().catch(() => '');
  let problem: Partial<RunnerProblem> = {};
  try {
    problem = JSON.parse(text);
  } catch {
    // The response comes from a proxy on the way, not from a runner.
  }
  const { code, message = `status ${response.status}: ${text.slice(0, 200)}` } = problem.error ?? {};
  if (code === 'SANDBOX_FILE') return new SandboxFileError(message);
  if (code === 'SANDBOX_LAYER') return new LayerError(message);
  if (code === 'SANDBOX_UNAVAILABLE') return new SandboxUnavailableError(message);
  return Object.assign(new Error(`a runner refused: ${message}`), { code });
}
