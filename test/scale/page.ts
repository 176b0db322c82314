import { type Limits, QUOTAS } from './quotas.ts';

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

const number = (n: number): string => n.toLocaleString('en-US');

/** Every limit that the model uses, with its source. */
export function limitTable(limits: Limits): string {
  const template = (name: string, value: number, unit: string) => [
    name,
    `${number(value)} ${unit}`,
    'template of `prod`',
  ];
  return table(
    ['limit', 'value', 'from'],
    [
      ...Object.values(QUOTAS).map(({ name, value, unit, source }) => [name, `${number(value)} ${unit}`, source]),
      template(
        'throttle of the API',
        limits.gatewayRate,
        `requests a second, ${number(limits.gatewayBurst)} in a burst`,
      ),
      template('batches of the queue of schedules', limits.fires, `at once, of ${limits.batchSize} messages`),
      template('tasks for sandboxes', limits.poolMax, `at once, of ${limits.taskVcpus} vCPUs`),
      template('time of `service-keeper`', limits.keeperTimeout, 'seconds'),
      template('load balancers of services', limits.maxAlbs, ''),
      template('addresses of services', limits.serviceAddresses, ''),
      ['calls at once in the plan `enterprise`', number(limits.planConcurrency), '[limits.md](limits.md)'],
    ],
  );
}
