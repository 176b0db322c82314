import { defineStage, PROGRAM_RISKS, type StageFile } from '#lib/config.ts';
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { everythingAsked } from './everything-asked.ts';
import { ACCOUNT_RULES, NETWORK_OF_YOURS, PRIVATE_NETWORKS } from './props.ts';

/** Stages that have every type of resource between them. */
export const EVERY_KIND: Readonly<Record<string, StageFile>> = {
  'to try things in': dev,
  'with addresses of AWS': prod,
  'with all that it may ask for': everythingAsked,
  'with rules of its own': ACCOUNT_RULES,
  'in an existing network': NETWORK_OF_YOURS,
  'with private networks': PRIVATE_NETWORKS,
  'without the internet': defineStage({ ...dev, sandbox: { kind: 'fargate', egress: 'endpoints' } }),
  'with MicroVMs': defineStage({ ...dev, sandbox: { kind: 'microvm' } }),
  'with a server of calls': defineStage({ ...dev, calls: 'web' }),
  'with a function for short programs': defineStage({
    ...prod,
    sandbox: { kind: 'fargate', lambda: { acknowledges: PROGRAM_RISKS } },
  }),
};
