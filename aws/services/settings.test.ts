import { expect, test } from 'vitest';
import { parseLogPlace, parseServiceSettings } from './settings.ts';

const common = {
  cluster: 'platform-dev-services',
  subnets: ['subnet-1', 'subnet-2'],
  public_ip: false,
  security_group: 'sg-1',
  image: '111122223333.dkr.ecr.eu-west-1.amazonaws.com/platform-dev-sandbox:1',
  execution_role: 'arn:aws:iam::111122223333:role/execution',
  family_prefix: 'platform-dev-svc-',
  log_group_prefix: '/platform/dev/services/',
  log_retention_days: 30,
  stage: 'dev',
  cpu: 256,
  memory_mb: 1024,
  api_url: 'https://api.example.com/v1/',
};
const parse = (services: object) => parseServiceSettings(JSON.stringify(services));

test('services behind a gateway, or behind a load balancer of our own', () => {
  const gateway = { ...common, kind: 'ecs-gateway', gateway: 'arn:aws:ecs:eu-west-1:111122223333:gateway/dev' };
  expect(parse(gateway)).toEqual({ ...gateway, api_url: 'https://api.example.com/v1' });
  const alb = { ...common, kind: 'alb', listener: 'arn:listener', vpc: 'vpc-1', domain: 'services.example.com' };
  expect(parse(alb)).toMatchObject({ kind: 'alb', domain: 'services.example.com' });
});

test('an error names the wrong members', () => {
  expect(() => parse({ ...common, kind: 'alb', listener: 'arn:listener', vpc: 'vpc-1', cpu: '256' })).toThrow(
    /cpu: .*number.*domain: /s,
  );
  expect(() => parseLogPlace('{}')).toThrow(/^PLATFORM_SERVICES_LOGS: log_group_prefix/);
});
