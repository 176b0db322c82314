import { preferNames, pythonEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { declares, moduleOf } from '../python-program.ts';
import { webService } from '../web-service.ts';

export const fastapi: Framework = {
  name: 'fastapi',
  title: 'FastAPI',
  language: 'python',
  packages: ['fastapi'],
  example: 'it must be a variable at the top of a module, such as `app = FastAPI()`.',
  entriesIn: (project) => preferNames(pythonEntries(project, /\bFastAPI\(/, /\bfastapi\b/), 'app', 'api', 'create_app'),
  adapt(project, entry) {
    const { folders, module } = moduleOf(project, entry.file);
    const search = folders.length > 0 ? ` --app-dir ${folders[0]}` : '';
    const factory = entry.isFactory ? ' --factory' : '';
    return webService(project, {
      language: 'python',
      command: `python3 -m uvicorn ${module}:${entry.name ?? 'app'}${factory}${search} --host 0.0.0.0 --port $PORT`,
      path: '/openapi.json',
      notes: [
        declares(project, 'uvicorn') || declares(project, 'fastapi', /\[(?:standard|all)/)
          ? undefined
          : 'FastAPI needs a server: add uvicorn to requirements.txt or pyproject.toml.',
      ],
    });
  },
};
