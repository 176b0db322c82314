import { CDK, DOCTOR, linkPackages } from '../../scripts/install-packages.ts';

/** Vitest global setup of the projects whose tests synthesise stages. */
export function setup(): void {
  // A test compares what the doctor knows of a stage with its templates.
  for (const folder of [CDK, DOCTOR]) linkPackages(folder);
}
