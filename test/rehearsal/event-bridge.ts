import { randomUUID } from 'node:crypto';
import { TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import type { Assembly } from './assembly.ts';
import type { Lambda } from './lambda.ts';

/** An event of an AWS service. */
export interface BusEvent {
  readonly source: string;
  readonly 'detail-type': string;
  readonly detail: object;
  readonly resources?: readonly string[];
}

export interface EventBridge {
  /** Delivers an event to the targets of the rules that match it. */
  put(event: BusEvent): Promise<void>;
  /** Fires the scheduled rules that target this function. Throws if there are none. */
  tick(functionName: string): Promise<void>;
}

/** Applies the rules of an assembly. Their target functions must permit EventBridge to call them for the rule. */
export function startEventBridge(assembly: Assembly, lambda: Lambda): EventBridge {
  const rules = assembly.of('AWS::Events::Rule').filter(({ properties }) => properties.State !== 'DISABLED');

  async function deliver(rule: (typeof rules)[number], event: BusEvent): Promise<void> {
    const whole = {
      version: '0',
      id: randomUUID(),
      account: TEST_ACCOUNT,
      time: new Date().toISOString().replace(/\.\d+Z$/, 'Z'),
      region: TEST_REGION,
      resources: [rule.arn],
      ...event,
    };
    for (const { Arn, Input } of rule.properties.Targets ?? []) {
      if (!Arn.startsWith('arn:aws:lambda:')) throw new Error(`the rehearsal delivers no events to ${Arn}`);
      if (!lambda.allows(Arn, 'events.amazonaws.com', rule.arn))
        throw new Error(`${Arn} does not let ${rule.arn} call it`);
      const { payload } = await lambda.invoke(Arn, Input === undefined ? whole : JSON.parse(Input));
      await Array.fromAsync(payload);
    }
  }

  return {
    async put(event) {
      const fitting = rules.filter(({ properties }) => properties.EventPattern && fits(properties.EventPattern, event));
      await Promise.all(fitting.map((rule) => deliver(rule, event)));
    },
    async tick(functionName) {
      const scheduled = rules.filter(
        ({ properties: { ScheduleExpression, Targets } }) =>
          ScheduleExpression && Targets?.some(({ Arn }: { Arn: string }) => Arn.endsWith(`:${functionName}`)),
      );
      if (scheduled.length === 0) throw new Error(`no rule of the template calls ${functionName} by the clock`);
      for (const rule of scheduled) {
        await deliver(rule, { source: 'aws.events', 'detail-type': 'Scheduled Event', detail: {} });
      }
    },
  };
}

/**
 * Matches EventBridge's patterns, as far as rules use them: values, `prefix`, `anything-but`, `exists`, at any depth.
 */
function fits(pattern: object, event: object | undefined): boolean {
  return Object.entries(pattern).every(([name, wanted]) => {
    const given = (event as Record<string, unknown> | undefined)?.[name];
    if (!Array.isArray(wanted)) return fits(wanted, given as object | undefined);
    const values = given === undefined ? [undefined] : [given].flat();
    return wanted.some((each) => values.some((value) => accepts(each, value)));
  });
}

// biome-ignore lint/suspicious/noExplicitAny: a filter of any kind.
function accepts(filter: any, value: unknown): boolean {
  if (typeof filter !== 'object' || filter === null) return filter === value;
  if ('exists' in filter) return (value !== undefined) === filter.exists;
  if ('prefix' in filter) return String(value).startsWith(filter.prefix);
  if ('anything-but' in filter) return ![filter['anything-but']].flat().includes(value);
  throw new Error(`the rehearsal knows no filter ${JSON.stringify(filter)}`);
}
