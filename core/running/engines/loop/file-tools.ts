import type { SandboxSession } from '#core/ports/sandbox.ts';
import { shortenTo } from '#core/runs/masking.ts';
import { ERROR, MAX_RESULT_BYTES } from './tool-outcome.ts';

/** Length of a file's beginning that is searched for a NUL byte, the sign of a binary file. */
const SNIFFED_BYTES = 8192;

/** Reads at most the size limit of a result, even from endless files. */
export async function readFile(session: SandboxSession, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of await session.readFile(path)) {
    chunks.push(chunk);
    size += chunk.byteLength;
    if (size > MAX_RESULT_BYTES) break;
  }
  const bytes = Buffer.concat(chunks);
  if (bytes.subarray(0, SNIFFED_BYTES).includes(0)) return `${ERROR} ${path} is not a text file.`;
  if (size === 0) return '(empty file)';
  if (size <= MAX_RESULT_BYTES) return bytes.toString();
  // With `stream`, the decoder drops a character that is cut in two.
  const beginning = new TextDecoder().decode(bytes.subarray(0, MAX_RESULT_BYTES), { stream: true });
  return `${beginning}\n[... the file goes on; these are its first ${MAX_RESULT_BYTES / 1024} KB ...]`;
}

export async function writeFile(session: SandboxSession, path: string, content: string): Promise<string> {
  const bytes = Buffer.from(content);
  await session.writeFile(path, bytes);
  return `Wrote ${bytes.byteLength} bytes to ${path}.`;
}

export async function listFiles(session: SandboxSession, path: string, recursive: boolean): Promise<string> {
  const files = await session.listFiles(path, { recursive });
  const shown = files.filter((file) => !recursive || !file.path.split('/').some((name) => name.startsWith('.')));
  const lines = shown.map((file) => (file.isFolder ? `${file.path}/` : file.path));
  return lines.length === 0 ? '(empty folder)' : shortenTo(MAX_RESULT_BYTES, lines.join('\n'));
}
