import { describe, expect, test } from 'vitest';
import { stage as dev } from '../stages/dev.ts';
import { defineStage } from './config.ts';
import { MAX_SETTINGS_BYTES, microvmRegionProblem, taskSubnetMask } from './limits.ts';

type Members = Partial<Parameters<typeof defineStage>[0]>;
const define = (members: Members) => () => defineStage({ ...dev, ...members });
const settings = (bytes: number) => ({ PLATFORM_MODELS: `https://${'m'.repeat(bytes)}` });

describe('a stage is refused with the member, the cause and the fix', () => {
  test.each<[Members, RegExp]>([
    [
      { sandbox: { kind: 'fargate', cpu: 256, memoryMb: 8192 } },
      /is 8192, but Fargate offers 512 to 2048 MB in steps of 512 for 256 CPU units: choose[\s\S]*at sandbox\.memoryMb/,
    ],
    [{ sandbox: { kind: 'fargate', cpu: 512, memoryMb: 1536 } }, /in steps of 1024[\s\S]*at sandbox\.memoryMb/],
    [
      { sandbox: { kind: 'fargate', max: 2500 } },
      /is 2500, for which the network 10\.64\.0\.0\/20 has too few addresses in 2 zones: set `cidr` to a network of \/19 or larger[\s\S]*at sandbox\.max/,
    ],
    [{ sandbox: { kind: 'fargate', max: 10_001, cidr: '10.64.0.0/16' } }, /at sandbox\.max/],
    [{ sandbox: { kind: 'fargate', cpu: 4096 } }, /8192 to 30720 MB[\s\S]*at sandbox\.memoryMb/],
    [{ services: { cpu: 256, memoryMb: 4096 } }, /512 to 2048 MB[\s\S]*at services\.memoryMb/],
    [{ settings: settings(5000) }, /has 50\d\d bytes[\s\S]*room for 2600: shorten PLATFORM_MODELS[\s\S]*at settings/],
    [
      {
        settings: settings(2000),
        oidc: {
          issuer: 'https://login.example.org',
          clientId: 'platform',
          secretName: 'oidc',
          domains: Array.from({ length: 60 }, (_, index) => `department${index}.example.org`),
        },
      },
      /shorten PLATFORM_MODELS, the largest[\s\S]*at settings/,
    ],
    [
      { concurrency: { reserved: { calls: 99_000, events: 1000 } } },
      /sets aside 100000 executions, but no account can have more than 99899: lower them[\s\S]*at concurrency\.reserved/,
    ],
    [{ concurrency: { provisioned: { calls: 100_000 } } }, /at concurrency\.provisioned/],
  ])('%j', (members, message) => {
    expect(define(members)).toThrow(message);
  });
});

test('subnets of tasks have an address for each of them', () => {
  expect([20, 1008, 1009, 2032, 10_000].map((tasks) => taskSubnetMask(tasks, 2))).toEqual([23, 23, 22, 22, 19]);
  expect(taskSubnetMask(1009, 3)).toBe(23);
});

test('what AWS takes is taken', () => {
  for (const members of [
    { sandbox: { kind: 'fargate', cpu: 256, memoryMb: 512 } },
    { sandbox: { kind: 'fargate', cpu: 4096, memoryMb: 30_720 } },
    { sandbox: { kind: 'fargate', cpu: 1024 } },
    { sandbox: { kind: 'fargate', max: 1000 } },
    { sandbox: { kind: 'fargate', max: 1500 } },
    { sandbox: { kind: 'fargate', max: 10_000, idle: 10_000, cidr: '10.64.0.0/16' } },
    { settings: settings(MAX_SETTINGS_BYTES - 100) },
    { concurrency: { reserved: { calls: 20_000, events: 1000 } } },
  ] as const) {
    expect(define(members)).not.toThrow();
  }
});

test('MicroVMs are refused in a Region that is not known to have them, unless the app says so', () => {
  expect(microvmRegionProblem('eu-central-1', undefined)).toBeUndefined();
  const problem =
    /ca-west-1 had no Lambda MicroVMs[\s\S]*choose "fargate", or one of[\s\S]*agent-platform:microvmRegions/;
  expect(microvmRegionProblem('ca-west-1', undefined)).toMatch(problem);
  for (const more of [['ca-west-1'], 'sa-east-1,ca-west-1'])
    expect(microvmRegionProblem('ca-west-1', more)).toBeUndefined();
});
