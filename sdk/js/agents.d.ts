/**
 * The agents whose types are known, by name. The files that `platform types` writes add theirs:
 * `interface Agents { 'acme/report': { input: ReportInput; output: ReportOutput } }`.
 */
// biome-ignore lint/suspicious/noEmptyInterface: other files add members.
export interface Agents {}

/** The input of an agent: any object if its types are not known. */
export type InputOf<Name extends string> = Name extends keyof Agents
  ? Agents[Name] extends { input: infer Input }
    ? Input
    : object
  : object;

/** The output of an agent. */
export type OutputOf<Name extends string> = Name extends keyof Agents
  ? Agents[Name] extends { output: infer Output }
    ? Output
    : // biome-ignore lint/suspicious/noExplicitAny: the output of an agent may have any form.
      any
  : // biome-ignore lint/suspicious/noExplicitAny: the output of an agent may have any form.
    any;
