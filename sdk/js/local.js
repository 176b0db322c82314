import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LocalExecutionError, TimeoutExceededError } from './errors.js';

/**
 * Runs the agent in `PLATFORM_AGENTS_DIR/org/name/version` as the platform would: JSON in, JSON out. For agents that the
 * command line tool runs on the author's own machine.
 *
 * @param {{ agent: string, folder: string[], input: object, chain?: string, hops?: number, timeout: number }} call
 */
export async function runLocally({ agent, folder, input, chain, hops, timeout }) {
  const cwd = join(process.env.PLATFORM_AGENTS_DIR ?? '.', ...folder);
  /** @type {unknown} */
  let command;
  try {
    command = JSON.parse(await readFile(join(cwd, 'agent.json'), 'utf8')).runtime.command;
  } catch (error) {
    throw new LocalExecutionError(`${agent} has no runtime.command in ${cwd}/agent.json: ${error}`, null);
  }
  const child = spawn(String(command), {
    shell: true,
    cwd,
    timeout,
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      ...process.env,
      PLATFORM_CALL_CHAIN: chain ? `${chain},${agent}` : agent,
      ...(hops !== undefined && { PLATFORM_MAX_HOPS: String(hops) }),
    },
  });
  // An agent may ignore its input.
  child.stdin.on('error', () => {});
  child.stdin.end(JSON.stringify(input));
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  /** @type {number | null} */
  const exitCode = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  if (child.killed) throw new TimeoutExceededError(`${agent} did not end within ${timeout} ms`, { code: 'TIMEOUT' });
  if (exitCode !== 0) throw new LocalExecutionError(`${agent} ended with status ${exitCode}`, exitCode);
  try {
    return JSON.parse(output || '{}');
  } catch {
    return { result: output };
  }
}
