import { CDK, linkPackages } from '../../scripts/install-packages.ts';

/** Vitest global setup of the projects whose tests synthesise stages. */
export const setup = (): void => linkPackages(CDK);
