import type { Assert } from '../evals/suite.ts';

/**
 * Tasks of the worker threads, each with a loader of its function. The loader gets the task's arguments, and its time
 * does not count. Arguments and results are plain data.
 */
export const tasks = {
  validate: async () => {
    const { prepareValidation, validateAgainst } = await import('../json-schema/schema-validation.ts');
    prepareValidation();
    return validateAgainst;
  },
  checkDefinition: async () => (await import('../parsing/manifest.ts')).checkDefinition,
  checkUpdate: async () => (await import('../parsing/manifest.ts')).checkUpdate,
  readContents: async () => (await import('../bundle/bundle-contents.ts')).readContents,
  readPlan: async () => (await import('../bundle/bundle-contents.ts')).readPlan,
  readSuites: async () => (await import('../evals/read-suites.ts')).readSuites,
  checkOutput: async (asserts: readonly Assert[]) => {
    const { checkOutput, prepareFor } = await import('../evals/check-output.ts');
    prepareFor(asserts);
    return checkOutput;
  },
  placesIn: async () => (await import('../tool-commands/tool-command.ts')).placesIn,
};

type Loaders = typeof tasks;
export type Tasks = { readonly [Name in keyof Loaders]: Awaited<ReturnType<Loaders[Name]>> };
