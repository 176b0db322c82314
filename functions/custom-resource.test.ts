import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { expect, onTestFinished, test } from 'vitest';
import { type CustomResourceWork, customResource } from './custom-resource.ts';

/** Returns the response that CloudFormation gets. */
async function answerTo(RequestType: 'Create' | 'Update' | 'Delete', work: CustomResourceWork) {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const server = createServer(async (request, response) => {
    resolve({ method: request.method, ...JSON.parse(Buffer.concat(await request.toArray()).toString()) });
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const ResponseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const event = { RequestType, ResponseURL, StackId: 'stack', RequestId: 'request', LogicalResourceId: 'clean' };
  await customResource(work)(event as CloudFormationCustomResourceEvent);
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

test('the work of each event is done at it, and at no other time', async () => {
  const done: string[] = [];
  const onDelete = async ({ RequestType }: { RequestType: string }) => void done.push(RequestType);
  for (const type of ['Create', 'Update', 'Delete'] as const)
    expect(await answerTo(type, { onDelete })).toEqual(ANSWER);
  expect(done).toEqual(['Delete']);
  for (const type of ['Create', 'Update'] as const) {
    expect(await answerTo(type, { onDelete, onUpdate: onDelete as CustomResourceWork['onUpdate'] })).toEqual(ANSWER);
  }
  expect(done).toEqual(['Delete', 'Update']);
  const onCreate = onDelete as CustomResourceWork['onCreate'];
  for (const type of ['Create', 'Update', 'Delete'] as const)
    expect(await answerTo(type, { onCreate })).toEqual(ANSWER);
  expect(done).toEqual(['Delete', 'Update', 'Create']);
});

test.each(['Create', 'Update', 'Delete'] as const)(
  'work that fails fails the stack, with the reason: %s',
  async (type) => {
    const fail = () => Promise.reject(new Error('no rights'));
    const answer = await answerTo(type, { onCreate: fail, onUpdate: fail, onDelete: fail });
    expect(answer).toEqual({ ...ANSWER, Status: 'FAILED', Reason: 'Error: no rights' });
  },
);
