import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { HOURS, PRICES } from '../../scripts/service-costs.ts';
import { ROOT } from './pages.ts';

const textOf = (page: string) => readFileSync(join(ROOT, page), 'utf8').replaceAll(/\s+/g, ' ');

test('pages state the prices of Fargate that costs are computed with', () => {
  const { cpuHour, gbHour, addressHour } = PRICES;
  const hour = 0.5 * cpuHour + 2 * gbHour + addressHour;
  const billed = (seconds: number) => `| ${seconds} s: $${((seconds * hour) / 3600).toFixed(5)} |`;
  const microvms = textOf('docs/microvms.md');
  for (const stated of [
    `$${cpuHour} a vCPU-hour, $${gbHour} a GB-hour, $${addressHour} an hour for the public address`,
    `**$${(hour / 3600).toFixed(7)} a second**`,
    ...[60, 90, 320].map(billed),
    `${HOURS} h x $${hour.toFixed(5)}: $${(HOURS * hour).toFixed(2)}`,
  ]) {
    expect(microvms).toContain(stated);
  }
  const deploy = textOf('docs/deploy.md');
  expect(deploy).toContain(
    `${Math.round(HOURS * hour)} for each sandbox of half a processor and 2 GB that is kept warm`,
  );
  const aMillion = Math.round((60 * hour * 1e6) / 3600 / 10) * 10;
  expect(deploy).toContain(`a million runs of a program that take 10 s: ${aMillion} |`);
});
