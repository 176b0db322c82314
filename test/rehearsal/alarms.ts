import type { ServerResponse } from 'node:http';
import type { Assembly, Deployed } from './assembly.ts';
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
    const { AlarmName, Threshold, ComparisonOperator, TreatMissingData } = properties;
    if (ComparisonOperator !== 'GreaterThanThreshold' || TreatMissingData !== 'notBreaching')
      throw new Error(`the rehearsal knows no alarm that is ${ComparisonOperator}, ${TreatMissingData}`);
    const value = this.#valueOf(properties, this.#since.get(AlarmName) ?? { lines: 0, errors: 0 });
    return value !== undefined && value > Threshold;
  }

  // biome-ignore lint/suspicious/noExplicitAny: a metric of a template.
  #valueOf({ Metrics, Namespace, MetricName, Statistic }: any, since: { lines: number; errors: number }) {
    if (Metrics !== undefined) {
      const [sum, ...others] = [...Metrics].sort((a, b) => Number('MetricStat' in a) - Number('MetricStat' in b));
      if (
        sum.Expression !== 'SUM(METRICS())' ||
        others.some(({ MetricStat: { Metric } }) => Metric.MetricName !== 'Errors')
      )
        throw new Error(`the rehearsal knows no metrics ${JSON.stringify(Metrics)}`);
      const watched = others.map(
        ({ MetricStat: { Metric } }) =>
          Metric.Dimensions.find(({ Name }: { Name: string }) => Name === 'Resource').Value,
      );
      return this.#observed.errors.slice(since.errors).filter((name) => watched.includes(name)).length;
    }
    if (Statistic !== 'Average') throw new Error(`the rehearsal knows no statistic ${Statistic}`);
    const filters = this.#assembly
      .of('AWS::Logs::MetricFilter')
      .filter(
        ({ properties: { MetricTransformations } }) =>
          MetricTransformations[0].MetricNamespace === Namespace && MetricTransformations[0].MetricName === MetricName,
      );
    const values = this.#observed.accessLog
      .slice(since.lines)
      .flatMap((line) =>
        filters
          .filter(({ properties }) => fits(properties.FilterPattern, line))
          .map(({ properties }) => Number(properties.MetricTransformations[0].MetricValue)),
      );
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
  }
}

/** Matches the metric filter patterns that we use: all texts must be equal or unequal, with `*` allowed at the end. */
function fits(pattern: string, line: Readonly<Record<string, string>>): boolean {
  const terms = pattern.replace(/^\{ | \}$/g, '').split(' && ');
  return terms.every((term) => {
    const [, name, operator, wanted] = /^\(\$\.(\w+) (!?=) "([^"]*)"\)$/.exec(term) ?? [];
    if (wanted === undefined) throw new Error(`the rehearsal knows no filter ${pattern}`);
    const given = line[name!];
    const isSame = wanted.endsWith('*') ? given?.startsWith(wanted.slice(0, -1)) === true : given === wanted;
    return isSame === (operator === '=');
  });
}
