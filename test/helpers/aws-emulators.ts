import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { TestProject } from 'vitest/node';
import { buildFunctions } from '../../scripts/build-functions.ts';
import { fetchAwsEmulators, fetchLambdaRuntime } from '../../scripts/fetch-test-tools.ts';
import { TEST_ACCOUNT } from './aws-account.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Set in the projects `aws` and `rehearsal` only. */
    awsEndpoints: AwsEndpoints;
  }
}

/** Addresses of the emulators. */
export interface AwsEndpoints {
  readonly dynamoDb: string;
  /** Address of moto, which emulates every other service. */
  readonly moto: string;
}

const START_LIMIT_MS = 60_000;

/** Vitest global setup of the projects `aws` and `rehearsal`: runs the emulators while the tests run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // This happens here because the test files of the rehearsal share the result.
  if (project.name === 'rehearsal') {
    fetchLambdaRuntime();
    await buildFunctions();
  }
  const { endpoints, stop } = await startAwsEmulators();
  project.provide('awsEndpoints', endpoints);
  return stop;
}

/** Starts DynamoDB Local and moto, in memory. */
export async function startAwsEmulators(): Promise<{ endpoints: AwsEndpoints; stop: () => Promise<void> }> {
  const { dynamoDbLocal, python } = fetchAwsEmulators();
  const [dynamoDbPort, motoPort] = [await freePort(), await freePort()];
  const emulators = [
    start('java', [
      '-XX:+UseSerialGC',
      // Code of the second compiler is faster, and takes more time than a suite has.
      '-XX:TieredStopAtLevel=1',
      `-Djava.library.path=${dynamoDbLocal}`,
      ...['-cp', join(dynamoDbLocal, '*') + delimiter],
      'com.amazonaws.services.dynamodbv2.local.main.ServerRunner',
      ...['-inMemory', '-sharedDb', '-disableTelemetry', '-port', String(dynamoDbPort)],
    ]),
    start(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(motoPort)], { MOTO_ACCOUNT_ID: TEST_ACCOUNT }),
  ];
  const stop = async () => {
    await Promise.all(emulators.map((emulator) => emulator.stop()));
  };
  const endpoints = { dynamoDb: `http://127.0.0.1:${dynamoDbPort}`, moto: `http://127.0.0.1:${motoPort}` };
  try {
    await Promise.all([emulators[0]!.answers(endpoints.dynamoDb), emulators[1]!.answers(endpoints.moto)]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { endpoints, stop };
}

function start(command: string, args: string[], variables: Record<string, string> = {}) {
  const env = { ...process.env, ...variables };
  const child: ChildProcess = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const keep = (chunk: Buffer) => {
    output = (output + chunk).slice(-4000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const exited = once(child, 'exit').catch(keep);
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  return {
    /** Resolves at the first HTTP answer of any status. */
    async answers(url: string): Promise<void> {
      for (let waited = 0; waited < START_LIMIT_MS && child.exitCode === null; waited += 50) {
        try {
          await (await fetch(url)).arrayBuffer();
          return;
        } catch {
          await setTimeout(50);
        }
      }
      throw new Error(`${command} does not answer at ${url}; its output ends with:\n${output}`);
    },
    async stop(): Promise<void> {
      process.off('exit', kill);
      kill();
      await exited;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
