/** Ports `from` to `to`, both included. */
export interface PortRange {
  readonly from: number;
  readonly to: number;
}

/** Reads `5432` or `27017-27019`. Returns `undefined` for anything else. */
export function readPortRange(text: string): PortRange | undefined {
  const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? [];
  const [from, to] = [Number(first), Number(last)];
  return from >= 1 && from <= to && to <= 65_535 ? { from, to } : undefined;
}

export const isInPorts = (port: number, ranges: readonly PortRange[]): boolean =>
  ranges.some(({ from, to }) => from <= port && port <= to);

export const portsText = (ranges: readonly PortRange[]): string =>
  ranges.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)).join(', ');
