import type { Project } from './project.ts';

export type Language = 'python' | 'javascript';

/** Where a project has the object or the file that the platform starts. */
export interface Entry {
  /** Path of the file from the folder of the project. */
  readonly file: string;
  /** Name in the file; `default` for a default export, absent if the file itself is started. */
  readonly name?: string;
  /** Whether the name is a function without arguments that makes the object. @default false */
  readonly isFactory?: boolean;
  /** Another file that names the entry, such as `langgraph.json`; such an entry wins over those that were found by reading. */
  readonly declaredIn?: string;
}

/** What a framework contributes to the folder of an agent. */
export interface Adaptation {
  /** Members of `agent.json`: at least `runtime`. */
  readonly manifest: Readonly<Record<string, unknown>>;
  /** Further files by path, such as the adapter. */
  readonly files: Readonly<Record<string, string>>;
  /** Input of a sample call. Absent for services, which are deployed and not called. */
  readonly input?: unknown;
  /** Sentences about what the author must still do. */
  readonly notes?: readonly string[];
}

/** How projects of one framework are recognized and run. Each one is a file in `rows/`. */
export interface Framework {
  /** Name for `--framework`. */
  readonly name: string;
  /** Name as its authors write it. */
  readonly title: string;
  readonly language: Language;
  /** Its packages on PyPI or npm; the first one is written to a `requirements.txt` that is missing. */
  readonly packages: readonly string[];
  /** Modules that a program imports. @default packages */
  readonly modules?: readonly string[];
  /** Frameworks that projects of this one usually declare, too, without being projects of theirs. */
  readonly uses?: readonly string[];
  /** Returns the places that the platform could start, the best first. */
  entriesIn(project: Project): readonly Entry[];
  /** Completes "no entry point was found: ...", with an example of code that has one. */
  readonly example: string;
  adapt(project: Project, entry: Entry): Adaptation;
}

export type { Project };
