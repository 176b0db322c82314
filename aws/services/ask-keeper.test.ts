import { LambdaClient } from '@aws-sdk/client-lambda';
import { describe, expect, onTestFinished, test } from 'vitest';
import { HostBusyError } from '#core/base/errors.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { AWS_TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { startFakeLambda } from '#test/helpers/fake-lambda.ts';
import { serviceWorld } from '#test/helpers/services.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';
import { askKeeper } from './ask-keeper.ts';
import { type KeeperDeps, type KeeperEvent, onKeeperEvent } from './keeper.ts';

const VALUE = 'postgres://made-up';

/**
 * Creates a service with a secret. The function that its instances call has no vault, and asks the keeper through
 * Lambda.
 */
async function deployed() {
  const world = await serviceWorld();
  const { deps, owner, send, host } = world;
  const secrets = `/workspaces/${owner.workspaceId}/secrets`;
  await send('POST', secrets, { name: 'DB_URL', value: VALUE });
  const { id: agent_id } = await world.publish({ required_secrets: ['DB_URL'] });
  const { service } = await world.deploy({ agent_id });
  const id = service.id as string;
  const keeper = { ...deps } as unknown as KeeperDeps;
  let reply = (event: KeeperEvent): Promise<unknown> => onKeeperEvent(keeper, event);
  const lambda = await startFakeLambda(async (_, event) => {
    const answered = Buffer.from(JSON.stringify((await reply(event as KeeperEvent)) ?? null));
    return { isStream: false, payload: ReadableStream.from([answered]) };
  });
  onTestFinished(() => lambda.close());
  const client = mapThrottlingErrors(
    new LambdaClient({ ...AWS_TEST_ACCOUNT, region: TEST_REGION, endpoint: lambda.url, maxAttempts: 1 }),
  );
  const askForBoot: AllDeps['askForBoot'] = (service_id, token) =>
    askKeeper('platform-dev-service-keeper', { boot: { service_id, token } }, client);
  const vault = new Proxy(deps.vault, {
    get: () => () => Promise.reject(new Error('containers of tenants call this function')),
  });
  Object.assign(deps, { askForBoot, vault });
  return {
    ...{ ...world, lambda, keeper, id, secrets, agent_id, askForBoot },
    token: (of = id) => host.orderOf(of)!.token,
    boot: (token: string, of = id) => send('POST', `/runner/services/${of}/boot`, {}, token),
    /** Makes the keeper answer like this. */
    answerWith(answer: () => Promise<unknown>) {
      reply = answer;
    },
  };
}

test('an instance gets its secrets from a function that does not read them', async () => {
  const { boot, token, lambda, id } = await deployed();
  expect(await boot(token())).toMatchObject({ status: 200, serviceId: id, secrets: { DB_URL: VALUE } });
  expect(lambda.calls).toEqual(['RequestResponse platform-dev-service-keeper']);
});

describe('the keeper', () => {
  test('is not asked without the token of the service', async () => {
    const { boot, token, lambda, deploy, agent_id } = await deployed();
    const { service } = await deploy({ agent_id, service_name: 'other' });
    const refused = { status: 401, error: { code: 'UNAUTHORIZED' } };
    for (const bearer of ['', 'wrong', token(service.id)]) expect(await boot(bearer)).toMatchObject(refused);
    expect(await boot(token(), service.id)).toMatchObject(refused);
    expect(lambda.calls).toEqual([]);
  });

  test('checks the token itself: a function that asks for the secrets of others gets none', async () => {
    const { askForBoot, token, deploy, agent_id, id } = await deployed();
    const { service } = await deploy({ agent_id, service_name: 'other' });
    for (const [of, bearer] of [
      [id, 'wrong'],
      [id, token(service.id)],
      [service.id, token()],
      ['nothing', token()],
    ]) {
      await expect(askForBoot!(of, bearer)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    }
  });
});

describe('an instance hears', () => {
  test('of a secret that its owner has deleted, and the error has no value', async () => {
    const { boot, token, keeper, owner } = await deployed();
    await keeper.vault.remove(owner.workspaceId, 'DB_URL');
    await keeper.main.delete({ pk: `WS#${owner.workspaceId}`, sk: 'SECRET#DB_URL' });
    const answer = await boot(token());
    expect(answer).toMatchObject({ status: 400, error: { code: 'MISSING_SECRETS', is_retryable: false } });
    expect(answer.error.message).toContain('DB_URL');
    expect(JSON.stringify(answer)).not.toContain(VALUE);
  });

  test('that the keeper has no room, or its tables have none: it asks again', async () => {
    const { boot, token, lambda, keeper } = await deployed();
    const busy = { status: 429, error: { code: 'RATE_LIMITED', is_retryable: true } };
    lambda.throttle(1);
    expect(await boot(token())).toMatchObject(busy);
    Object.assign(keeper, { vault: { read: () => Promise.reject(new HostBusyError('slow down')) } });
    expect(await boot(token())).toMatchObject(busy);
  });

  test('nothing of an unexpected error, nor of an older keeper', async () => {
    const { boot, token, answerWith } = await deployed();
    for (const answer of [() => Promise.reject(new Error(`read ${VALUE}`)), async () => undefined]) {
      answerWith(answer);
      const answered = await boot(token());
      expect(answered).toMatchObject({ status: 500, error: { code: 'INTERNAL_ERROR', is_retryable: true } });
      expect(JSON.stringify(answered)).not.toContain(VALUE);
    }
  });
});
