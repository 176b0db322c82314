import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { expect, onTestFinished, test } from 'vitest';
import { onDelete } from './custom-resource.ts';

/** What CloudFormation is told. */
async function answerTo(RequestType: 'Create' | 'Update' | 'Delete', work: () => Promise<void>) {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const server = createServer(async (request, response) => {
    resolve({ method: request.method, ...JSON.parse(Buffer.concat(await request.toArray()).toString()) });
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const ResponseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const event = { RequestType, ResponseURL, StackId: 'stack', RequestId: 'request', LogicalResourceId: 'clean' };
  await onDelete(work)(event as CloudFormationCustomResourceEvent);
  return promise;
}
const ANSWER = {
  method: 'PUT',
  Status: 'SUCCESS',
  PhysicalResourceId: 'cleaner',
  StackId: 'stack',
  RequestId: 'request',
  LogicalResourceId: 'clean',
};

test('the work is done when the resource is deleted, and at no other time', async () => {
  const done: string[] = [];
  for (const type of ['Create', 'Update', 'Delete'] as const) {
    expect(await answerTo(type, async () => void done.push(type))).toEqual(ANSWER);
  }
  expect(done).toEqual(['Delete']);
});

test('work that fails fails the stack, with the reason', async () => {
  const answer = await answerTo('Delete', () => Promise.reject(new Error('no rights')));
  expect(answer).toEqual({ ...ANSWER, Status: 'FAILED', Reason: 'Error: no rights' });
});
