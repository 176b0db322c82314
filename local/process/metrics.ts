/** Counters and histograms in the text format of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats/). */
type Labels = Readonly<Record<string, string | number>>;

/** Bucket bounds in seconds, from a fast read to a long run. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** Monotonic counter for each set of labels. */
export class Counter {
  readonly #name: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  /** Keyed by the label values. */
  readonly #counts = new Map<string, { readonly values: readonly (string | number)[]; count: number }>();

  constructor(name: string, help: string, labels: readonly string[]) {
    this.#name = name;
    this.#help = help;
    this.#labels = labels;
  }

  /** @param values Label values, in the order of the labels. */
  add(...values: readonly (string | number)[]): void {
    const key = values.join('\n');
    const known = this.#counts.get(key);
    if (known) known.count += 1;
    else this.#counts.set(key, { values, count: 1 });
  }

  lines(): string[] {
    return [
      ...head(this.#name, this.#help, 'counter'),
      ...[...this.#counts.values()].map(({ values, count }) => {
        const labels = Object.fromEntries(this.#labels.map((label, position) => [label, values[position]!]));
        return `${this.#name}${textOf(labels)} ${count}`;
      }),
    ];
  }
}

/** Cumulative histogram: number of durations up to each bound. */
export class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #counts = BOUNDS.map(() => 0);
  #count = 0;
  #sum = 0;

  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  observe(seconds: number): void {
    this.#count += 1;
    this.#sum += seconds;
    for (let index = BOUNDS.length - 1; index >= 0 && seconds <= BOUNDS[index]!; index--) this.#counts[index]! += 1;
  }

  lines(): string[] {
    const name = this.#name;
    return [
      ...head(name, this.#help, 'histogram'),
      ...BOUNDS.map((bound, index) => `${name}_bucket{le="${bound}"} ${this.#counts[index]}`),
      `${name}_bucket{le="+Inf"} ${this.#count}`,
      `${name}_sum ${this.#sum}`,
      `${name}_count ${this.#count}`,
    ];
  }
}

/** Formats a gauge: current values by labels. */
export const gauge = (name: string, help: string, ...values: readonly (readonly [Labels, number])[]): string[] => [
  ...head(name, help, 'gauge'),
  ...values.map(([labels, value]) => `${name}${textOf(labels)} ${value}`),
];

const head = (name: string, help: string, type: string): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} ${type}`,
];

function textOf(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return parts.length === 0 ? '' : `{${parts.join(',')}}`;
}

const escaped = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
