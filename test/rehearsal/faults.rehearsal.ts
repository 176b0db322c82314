import { ECSClient } from '@aws-sdk/client-ecs';
import { afterAll, expect, inject, test } from 'vitest';
import { interruptionsSuite } from '#test/e2e/interruptions.ts';
import { accountFor } from './accounts.ts';
import { chaosSuite } from './chaos.ts';
import { startRehearsal } from './platform.ts';
import { releaseSuite } from './releases.ts';
import { neverNeeded } from './rights.ts';
import { servicesChaosSuite, servicesDestroySuite } from './services-chaos.ts';
import { workerChaosSuite } from './worker-chaos.ts';

/** The stage when tasks die, ECS refuses, events are lost, releases fail, and the stack is deleted. */
const target = await startRehearsal(inject('awsEndpoints'), { name: 'faults' });
const ecs = () => new ECSClient({ ...accountFor('deployment'), endpoint: target.ecs.url });

chaosSuite(() => target);
workerChaosSuite(() => target);
interruptionsSuite(() => target);
servicesChaosSuite(() => target, ecs);
releaseSuite(() => target);
servicesDestroySuite(() => target, ecs);

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

test('no function may do what it never needs', () => {
  expect(neverNeeded('faults', target)).toEqual([]);
});

afterAll(() => target.close());
