import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ExecEvent, ExecRequest, SandboxSession } from '#core/ports/sandbox.ts';

/** A session whose commands run on this machine, in a folder of their own. */
export function machineSession(): SandboxSession {
  const folder = mkdtempSync(join(tmpdir(), 'detached-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const placed = (text: string) => text.replaceAll('/tmp/.program', join(folder, 'program'));
  return {
    async *exec({ command }: ExecRequest): AsyncGenerator<ExecEvent> {
      const child = spawn('bash', ['-c', placed(command)], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
      const printed = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
      for (const type of ['stdout', 'stderr'] as const) child[type].on('data', (data) => printed[type].push(data));
      const exitCode = await new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? 137)));
      for (const type of ['stdout', 'stderr'] as const) yield { type, data: Buffer.concat(printed[type]) };
      yield { type: 'exit', exit: { reason: 'exited', exitCode, durationMs: 1 } };
    },
    async writeFile(path, content) {
      const file = placed(path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content as Uint8Array);
    },
    readFile: () => Promise.reject(new Error('not here')),
    listFiles: async () => [],
    close: async () => {},
  };
}
