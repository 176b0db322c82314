import type { Egress, ExecEvent, ExecExit, SandboxLimits, SandboxSpec } from '#core/ports/sandbox.ts';
import type { Gateway, Registries } from './egress-proxy.ts';

/**
 * HTTP between the platform and a runner, the program in each task, VM or test process that is one sandbox.
 *
 * | request                          | answer                                                                      |
 * | -------------------------------- | --------------------------------------------------------------------------- |
 * | `GET /health`                    | 200, {@link RunnerHealth}                                                   |
 * | `POST /session` {@link RunnerJob} | 201 once bundle and layer are in place; 409 for every one but the first    |
 * | `POST /exec` ({@link encodeExec}) | 200, frames ({@link decodeEvents}), the last one the exit                  |
 * | `PUT /files?path=` content       | 204                                                                         |
 * | `GET /files?path=`               | 200, content; broken off when the rest cannot be read                       |
 * | `GET /list?path=&recursive=true` | 200, `{ files: SandboxFile[] }`                                             |
 * | `DELETE /session`                | 204 when nothing of the job runs any more; then the runner ends             |
 *
 * All but the first two need `Authorization: Bearer <token of the job>`. Errors are {@link RunnerProblem}, with status
 * 422 for what the job's author can mend. A request that breaks off ends the command that it started.
 */
export interface RunnerJob {
  /** Random, at least 32 characters: what all further requests must show. */
  readonly token: string;
  /** After this many milliseconds the runner kills everything and ends, whatever is going on. */
  readonly lifetimeMs: number;
  readonly bundle?: BlobLink;
  readonly layer?: BlobLink;
  readonly env: Readonly<Record<string, string>>;
  readonly egress: Egress;
  readonly purpose: SandboxSpec['purpose'];
  readonly limits: SandboxLimits;
  /** Only where the platform's address is a private one, as in tests: the one private address to let through. */
  readonly gateway?: Gateway;
  readonly registries?: Registries;
}

/** A blob and where to GET it, without further headers. */
export interface BlobLink {
  readonly key: string;
  readonly url: string;
}

export interface RunnerHealth {
  readonly state: 'idle' | 'claimed';
  readonly interpreters: { readonly python?: string; readonly node?: string };
  /** `container` where the task or VM around the runner is all that isolates. */
  readonly isolation: 'unshare' | 'bubblewrap' | 'container';
}

export interface RunnerProblem {
  readonly error: {
    readonly code: 'SANDBOX_FILE' | 'SANDBOX_UNAVAILABLE' | 'CLAIMED' | 'UNAUTHORIZED' | 'BAD_REQUEST' | 'FAILED';
    readonly message: string;
  };
}

export interface ExecHead {
  readonly command: string;
  readonly cwd?: string;
  readonly timeoutMs: number;
  readonly maxOutputBytes?: number;
}

/** The port that the runner's image listens on. */
export const RUNNER_PORT = 8080;
/** How often a runner shows that it lives, while a command is silent. */
export const HEARTBEAT_MS = 5_000;
/** A longer silence than this means that runner or network are gone. */
export const SILENCE_MS = 30_000;

const HEAD_BYTES = 4;
const FRAME_HEAD_BYTES = 5;
const TYPES = { o: 'stdout', e: 'stderr' } as const;

/** The body of `POST /exec`: 32-bit big-endian length of the head, the head as JSON, stdin. */
export function encodeExec(head: ExecHead, stdin: Uint8Array = new Uint8Array()): Uint8Array {
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(HEAD_BYTES);
  length.writeUInt32BE(json.byteLength);
  return Buffer.concat([length, json, stdin]);
}

/** Throws when `body` is not what {@link encodeExec} makes; the head is not checked further. */
export function decodeExec(body: Buffer): { head: unknown; stdin: Buffer } {
  const end = HEAD_BYTES + (body.length < HEAD_BYTES ? 0 : body.readUInt32BE());
  if (body.length < end) throw new Error('the body of /exec is shorter than it says');
  return { head: JSON.parse(body.toString('utf8', HEAD_BYTES, end)), stdin: body.subarray(end) };
}

/** One letter for the type, 32-bit big-endian length, data: `o` stdout, `e` stderr, `x` the exit as JSON. */
export function encodeEvent(event: ExecEvent): Uint8Array {
  if (event.type === 'exit') return frame('x', Buffer.from(JSON.stringify(event.exit)));
  return frame(event.type === 'stdout' ? 'o' : 'e', event.data);
}

/** `h`, which {@link decodeEvents} leaves out. */
export const HEARTBEAT: Uint8Array = frame('h', new Uint8Array());

function frame(type: string, data: Uint8Array): Uint8Array {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.write(type, 'latin1');
  head.writeUInt32BE(data.byteLength, 1);
  return Buffer.concat([head, data]);
}

/** Ends with the exit, or without one when `body` breaks off. */
export async function* decodeEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ExecEvent> {
  let buffer: Buffer = Buffer.alloc(0);
  for await (const chunk of body) {
    buffer = buffer.length === 0 ? Buffer.from(chunk) : Buffer.concat([buffer, chunk]);
    while (buffer.length >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + buffer.readUInt32BE(1);
      if (buffer.length < end) break;
      const type = String.fromCharCode(buffer[0]!);
      const data = buffer.subarray(FRAME_HEAD_BYTES, end);
      buffer = buffer.subarray(end);
      if (type === 'o' || type === 'e') yield { type: TYPES[type], data };
      if (type === 'x') return void (yield { type: 'exit', exit: JSON.parse(data.toString()) as ExecExit });
    }
  }
}
