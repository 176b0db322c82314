/** Value of a metric in one period; undefined if the metric has no data there. */
export type Value = number | undefined;

/** A metric with its statistic, as an alarm of a template names it. */
export interface MetricOf {
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly stat: string;
}

/** Values of all metrics in one period. */
export type Period = (metric: MetricOf) => Value;

/** Quotas of the account, as far as CloudWatch knows them. */
const QUOTA = 1000;

/** Returns whether an alarm rings after these periods, the latest last. */
// biome-ignore lint/suspicious/noExplicitAny: an alarm of a template.
export function isRinging(alarm: any, periods: readonly Period[]): boolean {
  const { EvaluationPeriods, DatapointsToAlarm = EvaluationPeriods, Threshold, TreatMissingData } = alarm;
  if (periods.length < EvaluationPeriods) throw new Error(`the alarm looks at ${EvaluationPeriods} periods`);
  const isBreaching = (value: Value) => {
    if (value === undefined) return TreatMissingData === 'breaching';
    return BREACHES[alarm.ComparisonOperator]!(value, Threshold);
  };
  const breaching = periods.slice(-EvaluationPeriods).filter((period) => isBreaching(watchedValue(alarm, period)));
  return breaching.length >= DatapointsToAlarm;
}

const BREACHES: Readonly<Record<string, (value: number, threshold: number) => boolean>> = {
  GreaterThanThreshold: (value, threshold) => value > threshold,
  LessThanThreshold: (value, threshold) => value < threshold,
};

/** Returns what an alarm compares with its threshold in one period. */
// biome-ignore lint/suspicious/noExplicitAny: an alarm of a template.
function watchedValue(alarm: any, period: Period): Value {
  const { Metrics, Namespace, MetricName, Dimensions, Statistic, ExtendedStatistic } = alarm;
  if (Metrics === undefined)
    return period(metricOf({ Namespace, MetricName, Dimensions }, Statistic ?? ExtendedStatistic));
  const queries = new Map<string, Query>(Metrics.map((query: Query) => [query.Id, query]));
  const scope: Scope = {
    value: (id) => {
      const query = queries.get(id);
      if (query === undefined) throw new Error(`the alarm has no metric ${id}`);
      if (query.Expression !== undefined) return evaluated(query.Expression, scope);
      return period(metricOf(query.MetricStat!.Metric, query.MetricStat!.Stat));
    },
    metrics: () =>
      [...queries.values()].flatMap(({ Id, MetricStat }) =>
        MetricStat === undefined ? [] : [scope.value(Id) as Value],
      ),
  };
  const watched = [...queries.values()].filter(({ ReturnData = true }) => ReturnData);
  if (watched.length !== 1) throw new Error(`the alarm watches ${watched.length} values`);
  const value = scope.value(watched[0]!.Id);
  if (Array.isArray(value)) throw new Error('the alarm watches several values at once');
  return value;
}

/** Returns the metrics that an alarm reads. */
// biome-ignore lint/suspicious/noExplicitAny: an alarm of a template.
export function metricsOf(alarm: any): MetricOf[] {
  const { Metrics = [{ MetricStat: { Metric: alarm, Stat: alarm.Statistic ?? alarm.ExtendedStatistic } }] } = alarm;
  return Metrics.flatMap(({ MetricStat }: Query) =>
    MetricStat === undefined ? [] : [metricOf(MetricStat.Metric, MetricStat.Stat)],
  );
}

interface Query {
  readonly Id: string;
  readonly Expression?: string;
  readonly MetricStat?: { readonly Metric: TemplateMetric; readonly Stat: string };
  readonly ReturnData?: boolean;
}

interface TemplateMetric {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Dimensions?: readonly { readonly Name: string; readonly Value: string }[];
}

const metricOf = ({ Namespace, MetricName, Dimensions = [] }: TemplateMetric, stat: string): MetricOf => ({
  namespace: Namespace,
  name: MetricName,
  dimensions: Object.fromEntries(Dimensions.map(({ Name, Value }) => [Name, Value])),
  stat,
});

type Result = Value | Value[];

interface Scope {
  value(id: string): Result;
  metrics(): Value[];
}

/**
 * Evaluates the metric math that we use, in one period: arithmetic and comparisons, which have no value where a part
 * has none, and functions of arrays, which ignore parts without a value.
 * {@link https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html}
 */
function evaluated(expression: string, scope: Scope): Result {
  const tokens = expression.match(/[a-z_]\w*|\d+(\.\d+)?|[<>=!]=|[-+*/<>()[\],]/gi) ?? [];
  if (tokens.join('') !== expression.replaceAll(' ', '')) throw new Error(`the rehearsal cannot read ${expression}`);
  let at = 0;
  const take = (wanted?: string): string => {
    const token = tokens[at++];
    if (token === undefined || (wanted !== undefined && token !== wanted))
      throw new Error(`${expression}: ${wanted ?? 'more'} instead of ${token ?? 'the end'}`);
    return token;
  };
  const list = (end: string): Result[] => {
    const values: Result[] = [];
    while (tokens[at] !== end) {
      values.push(binary(0));
      if (tokens[at] !== end) take(',');
    }
    take(end);
    return values;
  };
  const binary = (level: number): Result => {
    const operators = LEVELS[level];
    if (operators === undefined) return primary();
    let left = binary(level + 1);
    while (tokens[at] !== undefined && tokens[at]! in operators) {
      const operator = operators[take()]!;
      const right = binary(level + 1);
      left = combined(operator, left, right);
    }
    return left;
  };
  const primary = (): Result => {
    const token = take();
    if (/^\d/.test(token)) return Number(token);
    if (token === '[') return list(']').flat();
    if (token === '(') {
      const value = binary(0);
      take(')');
      return value;
    }
    if (tokens[at] !== '(') return scope.value(token);
    take('(');
    const values = list(')');
    if (token === 'METRICS' && values.length === 0) return scope.metrics();
    const call = FUNCTIONS[token];
    if (call === undefined) throw new Error(`the rehearsal knows no function ${token}`);
    return call(...values);
  };
  const value = binary(0);
  if (at < tokens.length) throw new Error(`${expression}: ${tokens[at]} is too much`);
  return value;
}

type Operator = (left: number, right: number) => number;

/** Binary operators, those that bind less first. */
const LEVELS: readonly Readonly<Record<string, Operator>>[] = [
  {
    '>': (a, b) => Number(a > b),
    '<': (a, b) => Number(a < b),
    '>=': (a, b) => Number(a >= b),
    '<=': (a, b) => Number(a <= b),
    '==': (a, b) => Number(a === b),
    '!=': (a, b) => Number(a !== b),
  },
  { '+': (a, b) => a + b, '-': (a, b) => a - b },
  { '*': (a, b) => a * b, '/': (a, b) => a / b },
];

function combined(operator: Operator, left: Result, right: Result): Value {
  if (Array.isArray(left) || Array.isArray(right)) throw new Error('the rehearsal does not calculate with arrays');
  return left === undefined || right === undefined ? undefined : operator(left, right);
}

const present = (values: Result): number[] => {
  if (!Array.isArray(values)) throw new Error('the rehearsal knows functions of arrays only');
  return values.filter((value) => value !== undefined);
};
const ofPresent =
  (reduce: (values: readonly number[]) => number) =>
  (values: Result): Value => {
    const given = present(values);
    return given.length === 0 ? undefined : reduce(given);
  };

const FUNCTIONS: Readonly<Record<string, (...values: Result[]) => Result>> = {
  SUM: ofPresent((values) => values.reduce((sum, value) => sum + value, 0)),
  MAX: ofPresent((values) => Math.max(...values)),
  IF: (condition, yes, no) => (condition === undefined ? undefined : condition === 0 ? no : yes),
  SERVICE_QUOTA: () => QUOTA,
};
