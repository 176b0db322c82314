import type { ServerResponse } from 'node:http';
import type { Assembly, Deployed } from './assembly.ts';
import { isRinging, type MetricOf, type Value } from './metric-math.ts';
import type { WireRequest } from './wire.ts';

/** Sources of the metrics of a stage. */
export interface Observed {
  /** Lines of the access log of the API. */
  readonly accessLog: readonly Readonly<Record<string, string>>[];
  /** `<function>:<version>` of every invocation that ended with an error. */
  readonly errors: readonly string[];
}

/**
 * Fakes CloudWatch for the template's alarms on metrics from access log filters and on `Errors` of function versions.
 * All data since an alarm was last set to `OK` counts as one period.
 */
export class Alarms {
  readonly #observed: Observed;
  readonly #since = new Map<string, { readonly lines: number; readonly errors: number }>();
  #assembly: Assembly;

  constructor(assembly: Assembly, observed: Observed) {
    this.#assembly = assembly;
    this.#observed = observed;
  }

  /** Replaces the alarms with those of another deployment. */
  update(assembly: Assembly): void {
    this.#assembly = assembly;
  }

  readonly control = async ({ headers, body }: WireRequest, response: ServerResponse): Promise<void> => {
    const action = String(headers['x-amz-target']).split('.').at(-1);
    const input = JSON.parse(body.toString());
    const answer = (value: object) =>
      void response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(value));
    if (action === 'SetAlarmState' && input.StateValue === 'OK') {
      const { accessLog, errors } = this.#observed;
      this.#since.set(input.AlarmName, { lines: accessLog.length, errors: errors.length });
      return answer({});
    }
    if (action !== 'DescribeAlarms' || input.StateValue !== 'ALARM')
      throw new Error(`the rehearsal knows no ${action} with ${body}`);
    const alarms = input.AlarmNames.map((name: string) => {
      const alarm = this.#assembly.of('AWS::CloudWatch::Alarm').find((each) => each.properties.AlarmName === name);
      if (alarm === undefined) throw new Error(`there is no alarm ${name}`);
      return alarm;
    }).filter((alarm: Deployed) => this.#isRinging(alarm));
    answer({ MetricAlarms: alarms.map(({ properties: { AlarmName } }: Deployed) => ({ AlarmName })) });
  };

  #isRinging({ properties }: Deployed): boolean {
    const { lines, errors } = this.#since.get(properties.AlarmName) ?? { lines: 0, errors: 0 };
    const period = (metric: MetricOf) =>
      metric.name === 'Errors' ? this.#errorsOf(metric, errors) : this.#logged(metric, lines);
    return isRinging(properties, Array(properties.EvaluationPeriods).fill(period));
  }

  #errorsOf({ dimensions }: MetricOf, since: number): Value {
    return this.#observed.errors.slice(since).filter((version) => version === dimensions.Resource).length;
  }

  #logged({ namespace, name, stat }: MetricOf, since: number): Value {
    if (stat !== 'Average') throw new Error(`the rehearsal knows no statistic ${stat}`);
    const filters = this.#assembly.of('AWS::Logs::MetricFilter').flatMap(({ properties }) => {
      const [{ MetricNamespace, MetricName, MetricValue }] = properties.MetricTransformations;
      if (MetricNamespace !== namespace || MetricName !== name) return [];
      return [{ pattern: properties.FilterPattern, value: Number(MetricValue) }];
    });
    const values = this.#observed.accessLog
      .slice(since)
      .flatMap((line) => filters.filter(({ pattern }) => fits(pattern, line)).map(({ value }) => value));
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
  }
}

/** Matches the metric filter patterns that we use: all texts must be equal or unequal, with `*` allowed at the end. */
export function fits(pattern: string, line: Readonly<Record<string, string>>): boolean {
  const terms = pattern.replace(/^\{ | \}$/g, '').split(' && ');
  return terms.every((term) => {
    const [, name, operator, wanted] = /^\(\$\.(\w+) (!?=) "([^"]*)"\)$/.exec(term) ?? [];
    if (wanted === undefined) throw new Error(`the rehearsal knows no filter ${pattern}`);
    const given = line[name!];
    const isSame = wanted.endsWith('*') ? given?.startsWith(wanted.slice(0, -1)) === true : given === wanted;
    return isSame === (operator === '=');
  });
}
