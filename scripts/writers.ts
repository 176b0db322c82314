import { setTimeout } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { startWriters, stopWriters, type Writer, writersOf } from '#aws/release/writers.ts';
import { checkTables, takeDataVersion } from '#aws/tables/data-version.ts';

const ACTIONS = ['stop', 'start', 'status'] as const;
type Action = (typeof ACTIONS)[number];
const isAction = (text: string | undefined): text is Action => ACTIONS.some((each) => each === text);

const clockOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const say = (line: string): boolean => process.stdout.write(`${line}\n`);

/** Returns the time from which nothing writes; `undefined` if something is still running. */
function idleFrom(writers: readonly Writer[]): number | undefined {
  const ends = writers.map((each) => each.idleFrom ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(Math.max(...ends)) ? Math.max(...ends) : undefined;
}

/**
 * Stops or starts everything that writes to the tables of a platform, and prints what it did. `stop` resolves when the
 * last writer has ended; `start` rejects missing tables, and data of an unsupported version.
 *
 * @param platform prefix of its stack names, such as `platform-prod`
 */
export async function runWriters(platform: string, action: string | undefined): Promise<void> {
  if (!isAction(action)) {
    process.stderr.write(`Say what to do with the functions of ${platform}: ${ACTIONS.join(', ')}.\n`);
    process.exitCode = 1;
    return;
  }
  const lambda = new LambdaClient();
  if (action === 'start') {
    const tables = new DynamoDBClient();
    await checkTables(tables, `${platform}-`);
    await takeDataVersion(tables, `${platform}-`);
    const started = await startWriters(lambda, platform);
    say(started.length === 0 ? `Nothing of ${platform} was stopped.` : `Started: ${started.join(', ')}.`);
    return;
  }
  const writers = await (action === 'stop' ? stopWriters(lambda, platform, Date.now) : writersOf(lambda, platform));
  for (const { name, idleFrom: from } of writers) {
    say(`${name}: ${from === undefined ? 'runs' : `stopped, its last execution ends by ${clockOf(from)}`}`);
  }
  const end = idleFrom(writers);
  if (end === undefined) return;
  if (action === 'stop' && end > Date.now()) {
    say(`Executions that had begun may write until ${clockOf(end)}. Waiting; you may stop this command and repeat it.`);
    await setTimeout(end - Date.now());
  }
  say(end > Date.now() ? `Nothing of ${platform} writes from ${clockOf(end)} on.` : `Nothing of ${platform} writes.`);
}
