/** What threads can do: for each task, loads its function. Arguments and results are plain data. */
export const tasks = {
  validate: async () => (await import('../manifest/schema-validation.ts')).validateAgainst,
  checkDefinition: async () => (await import('../manifest/manifest.ts')).checkDefinition,
  checkUpdate: async () => (await import('../manifest/manifest.ts')).checkUpdate,
  readContents: async () => (await import('../bundle/bundle-contents.ts')).readContents,
  readPlan: async () => (await import('../bundle/bundle-contents.ts')).readPlan,
  placesIn: async () => (await import('../manifest/tool-command.ts')).placesIn,
};

type Loaders = typeof tasks;
export type Tasks = { readonly [Name in keyof Loaders]: Awaited<ReturnType<Loaders[Name]>> };
