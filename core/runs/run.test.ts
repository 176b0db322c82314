import { expect, test } from 'vitest';
import { PlatformError } from '#core/base/errors.ts';
import { endedWith, newRunOf } from './run.ts';

test.each([
  ['TIMEOUT', 'timeout'],
  ['RUN_CANCELLED', 'cancelled'],
  ['SANDBOX_ERROR', 'failed'],
  ['INTERNAL_ERROR', 'failed'],
] as const)('a run with the error %s ends as %s', (code, status) => {
  expect(endedWith(new PlatformError(code, 'Why.'))).toEqual({ status, errorCode: code, errorMessage: 'Why.' });
});

test('a run without an error ends as completed', () => {
  expect(endedWith(undefined)).toEqual({ status: 'completed', errorCode: null, errorMessage: null });
});

test('a run of a deleted agent is recorded with what is known of the agent', () => {
  const started = { id: 'r', endpoint: 'run', triggerSource: 'schedule', startedAt: 1, deadline: 2, input: null };
  const agent = { id: 'a', workspaceId: 'w', orgSlug: 'acme', name: 'echo' };
  const recorded = { agentId: 'a', agentWorkspaceId: 'w', agentOrg: 'acme', agentName: 'echo', agentVersion: 'v3' };
  expect(newRunOf({ ...agent, version: 'v3' }, started)).toEqual({
    ...started,
    ...recorded,
    engine: null,
  });
  const definition = { execution_engine: 'direct_llm' } as const;
  expect(newRunOf({ ...agent, version: 3, definition }, started)).toMatchObject({
    ...recorded,
    engine: 'direct_llm',
  });
});
